"""Sends the probe's requests: limited connections, one at a time, shown as curl commands."""
