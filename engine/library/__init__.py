"""Models on disk: finding them, fetching them, and whether they fit into memory."""
