"""The engine thread: its commands and inbox, what takes requests in, and the room of its models."""
