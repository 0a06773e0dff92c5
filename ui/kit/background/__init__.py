"""Work that must not block the window: tasks on the loop, files on other threads."""
