"""Markdown as models write it: parsed, written into a document, and shown while it grows."""
