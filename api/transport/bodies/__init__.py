"""Bodies of requests: bounded while they arrive, unpacked, read in another process if large."""
