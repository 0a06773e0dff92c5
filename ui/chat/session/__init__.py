"""The open conversations and the runs that answer them, as state without widgets."""
