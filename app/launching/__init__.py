"""Coding agents with this program's server: what each is told, and the server that answers them."""
