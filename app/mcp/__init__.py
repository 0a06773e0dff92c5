"""MCP tool servers: their configuration file, secrets, processes and sessions.

All sessions run on the tool thread with its own loop, so that no server can stall the window. The
``mcp`` package is imported there when the first server starts.
"""
