"""The program with a window: its Qt loop, its server, and its desktop integration."""
