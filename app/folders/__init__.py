"""Where this person's files are, the log among them, all readable by that person alone."""
