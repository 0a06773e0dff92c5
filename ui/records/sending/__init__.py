"""What is asked of the engine, for one answer or two side by side, and how far that is. Pure."""
