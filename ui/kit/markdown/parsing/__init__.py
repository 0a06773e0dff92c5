"""Parses Markdown that may still be growing; no Qt."""
