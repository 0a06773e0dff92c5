"""Conversations and presets in an SQLite file that survives whatever happens to the program."""
