"""Lets the inspector use the API: what each dialect would say of a run, captures, the probe."""
