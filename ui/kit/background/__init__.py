"""Work that must not hold up the window: tasks on the loop, files on other threads."""
