"""The stop list of a conversation, and why an answer ended."""
