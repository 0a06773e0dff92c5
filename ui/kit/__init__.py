"""Widgets, theme, Markdown and background work; knows no conversations, models or servers."""
