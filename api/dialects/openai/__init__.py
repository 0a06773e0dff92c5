"""What the OpenAI dialects share: Chat Completions, Completions and Responses."""
