"""Conversations as files: our archives, and what other programs export. Pure; any thread."""
