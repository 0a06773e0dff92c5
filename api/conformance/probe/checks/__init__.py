"""The checks of the probe, by subject."""
