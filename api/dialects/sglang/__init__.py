"""SGLang's native dialect: ``POST /generate``, raw prompts in, text and token ids out."""
