"""Starts coding agents with this program's server: their configuration, and the server."""
