"""The metrics of a server, and their format for Prometheus."""
