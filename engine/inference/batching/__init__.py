"""The rows that a model decodes together, and how much of the waiting prompts each step reads."""
