"""The model on MLX: its batch, its samplers, its prompts, and the cache of prompts."""
