"""Finding text in a conversation, and the actions for a single message."""
