"""Tool servers in the window: their state, the window that lists them, and what a chat may call."""
