"""MCP servers: their state, the window that lists them, and the tools that a chat may call."""
