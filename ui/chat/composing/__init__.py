"""What goes with the next message: text, files, settings and presets."""
