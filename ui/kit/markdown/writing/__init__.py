"""Writes parsed Markdown into a text document."""
