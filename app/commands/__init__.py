"""One module per command of the program; each is imported only when its command is given."""
