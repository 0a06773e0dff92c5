"""The list of conversations, and the search in all messages."""
