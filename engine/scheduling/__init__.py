"""The engine thread: its inbox, its batch and queue, its model, and events for readers."""
