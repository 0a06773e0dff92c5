"""The next message: its text, files, settings and presets."""
