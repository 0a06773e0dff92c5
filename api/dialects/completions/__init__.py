"""OpenAI's Completions API, ``POST /v1/completions``: raw prompts, no chat template."""
