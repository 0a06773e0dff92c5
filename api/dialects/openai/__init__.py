"""The OpenAI dialects: Chat Completions, Completions and Responses, and what they share."""
