"""Bodies of requests: limited as they arrive, decompressed, parsed in another process if large."""
