"""Parts of requests that several dialects have: what they look like and what they mean. Pure."""
