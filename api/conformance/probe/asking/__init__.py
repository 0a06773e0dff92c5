"""Asks a server: bounded connections, one request at a time, shown as curl commands."""
