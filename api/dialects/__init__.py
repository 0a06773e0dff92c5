"""The vendors' dialects, a module or folder each, and what they share."""
