"""The local server: its switch, settings, key and request log, and the window that shows them."""
