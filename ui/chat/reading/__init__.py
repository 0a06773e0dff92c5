"""Reading along: finding in the conversation, and what can be done with one message."""
