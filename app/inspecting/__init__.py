"""Lets the inspector use the API: a run in each dialect, captures, the probe."""
