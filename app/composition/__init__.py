"""Puts an engine together, in one process or in several. Needs no Qt."""
