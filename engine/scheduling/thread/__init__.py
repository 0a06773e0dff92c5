"""The engine thread: its commands and inbox, the lane of its model, and what takes requests in."""
