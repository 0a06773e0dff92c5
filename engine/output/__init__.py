"""From sampled token ids to an answer: text, channels, calls, and why it ends. No MLX."""
