"""Bodies: bounded while they arrive, unpacked, read in another process if large, kept in part."""
