"""A conversation as a model's chat template takes it, and the text that the template makes of it.

Pure Python without MLX; any thread.
"""
