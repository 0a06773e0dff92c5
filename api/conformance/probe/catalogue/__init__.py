"""What the probe checks: its cases by subject."""
