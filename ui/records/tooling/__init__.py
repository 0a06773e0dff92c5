"""Tools by MCP as plain data: servers, what they offer, calls with their results; no Qt."""
