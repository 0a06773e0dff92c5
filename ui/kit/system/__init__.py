"""What the window system provides, one helper each: clipboard, dialogs, boxes and menus."""
