"""Builds the engine, in one process or in several. Needs no Qt."""
