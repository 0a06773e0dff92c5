"""What a model makes of text: prompts, token ids, and the parser of its tool calls."""
