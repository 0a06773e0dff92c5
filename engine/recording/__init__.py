"""Recorded runs: their traces, their files, and replay with other stop lists. No MLX."""
