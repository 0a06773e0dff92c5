"""The process itself: how it ends, the signals it gets, and how many files it may open."""
