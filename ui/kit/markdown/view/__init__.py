"""The widget that shows Markdown, with its scrolling, copying and style."""
