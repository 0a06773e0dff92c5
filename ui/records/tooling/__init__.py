"""MCP tools as plain data: servers, their tools, calls with their results; no Qt."""
