"""Parts of answers that several dialects have, and how answers are streamed. Pure."""
