"""Recovers what can be read of a damaged database."""
