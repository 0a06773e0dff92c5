"""The text of files that a person attaches: plain text, PDF, Word; no Qt."""
