"""The conversations as state without widgets: their list and files, what is open, and its runs."""
