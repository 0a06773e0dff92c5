"""The conversations as state without widgets: their list and files, the open ones, their runs."""
