"""MCP servers: their configuration file, secrets, processes and sessions.

Everything runs on the window's loop. The ``mcp`` package, whose import takes a second, is imported
in a thread when the first server starts.
"""
