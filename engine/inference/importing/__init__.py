"""How mlx-lm is imported: without its side effects, and without what a model never uses."""
