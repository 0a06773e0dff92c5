"""The three columns of the window: the sidebar, the chat, and the stop panel."""
