"""Tool servers by MCP: their file, their secrets, their processes and what they are asked.

Each session runs on one thread of its own loop, so that no server, whatever it sends, can hold up
the window. The ``mcp`` package is imported there, when the first server starts.
"""
