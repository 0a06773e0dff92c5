"""Keeps conversations and presets in an SQLite file, safely even if the program crashes."""
