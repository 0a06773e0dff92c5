"""The main window, its menus and columns, the preferences, the tray icon, and the guide."""
