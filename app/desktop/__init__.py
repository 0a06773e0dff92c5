"""The program with a window: its Qt loop, its server, and what the desktop asks of it."""
