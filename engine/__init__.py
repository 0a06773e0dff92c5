"""The domain and the model: requests, stop matching, channels, events and the one engine thread.

Knows no HTTP, no Qt and no pydantic. Importing the package never imports MLX.
"""
