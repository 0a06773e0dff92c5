"""The three columns of the window: the conversations, the chat, and the stop panel."""
