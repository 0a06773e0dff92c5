"""Requests to the engine, for one answer or two side by side, and their progress. Pure."""
