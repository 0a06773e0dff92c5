"""The OpenAI dialects; for now Chat Completions, ``POST /v1/chat/completions``."""
