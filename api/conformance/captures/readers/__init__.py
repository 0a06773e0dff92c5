"""Reads the answers of each API, event by event or whole, into a draft."""
