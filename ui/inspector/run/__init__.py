"""The run that the inspector shows, and what the inspector needs from outside."""
