"""The vendors' dialects, one folder each, and what they share."""
