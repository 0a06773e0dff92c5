"""Helpers for the window system: clipboard, dialogs, boxes and menus."""
