"""The main window, its menus and columns, the tray icon, and the list of shortcuts."""
