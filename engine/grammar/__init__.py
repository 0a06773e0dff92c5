"""Grammars that hold an answer to a JSON schema or a tool call. No MLX."""
