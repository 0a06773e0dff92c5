"""The vendors' dialects, a folder each, and their shared parts."""
