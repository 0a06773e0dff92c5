"""The engine thread: its commands and inbox, its model, and what takes requests in."""
