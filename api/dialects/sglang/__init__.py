"""SGLang's native API, ``POST /generate``: raw prompts in, text and token ids out."""
