"""The terminal: answers as they arrive, a status line, and the chat with its commands and tools."""
