"""The process itself: its end, its signals, and its limit of open files."""
