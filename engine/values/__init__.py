"""What flows into and out of the engine: messages, requests, events. No MLX."""
