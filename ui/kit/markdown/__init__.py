"""Parses Markdown of models, writes it into a document, and shows it while it grows."""
