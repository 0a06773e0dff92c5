"""The three columns of the window: the conversations, the chat, and the pages of the right pane."""
