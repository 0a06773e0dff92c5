"""Judges any server's stop handling: the probe sends requests, captures explain saved answers."""
