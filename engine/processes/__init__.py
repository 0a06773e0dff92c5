"""Processes that do dangerous work in the place of this one, and may die of it. No MLX."""
