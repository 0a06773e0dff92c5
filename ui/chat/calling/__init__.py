"""Runs the tool calls that a model makes: asks for permission, calls the tool, keeps the result."""
