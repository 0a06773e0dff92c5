"""The model on MLX: loading, prompts, samplers, the batch and the prompt cache."""
