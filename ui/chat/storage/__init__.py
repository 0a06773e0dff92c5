"""Conversations in files: import and export, recovery, and what went wrong."""
