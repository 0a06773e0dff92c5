"""Judges any server's stop handling: the probe asks it, captures explain what it sent."""
