"""What a probe checks of a server."""
