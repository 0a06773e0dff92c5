"""Conversations in files: import and export, recovery, and problems with saving."""
