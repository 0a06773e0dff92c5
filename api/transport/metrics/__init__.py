"""What a server has done and is doing, as numbers for Prometheus."""
