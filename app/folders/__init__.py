"""The folders of this person's files and log, which only that person can read."""
