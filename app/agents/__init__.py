"""Coding agents: how each is configured for a server, and the command that starts it."""
