"""The tokens of a run, side by side and as a table."""
