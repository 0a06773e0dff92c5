"""The checks of a probe."""
