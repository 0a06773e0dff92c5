"""Conversations as files: our archives, and the exports of other programs. Pure; any thread."""
