"""Which model answers: its name in the header, and the list it is chosen from."""
