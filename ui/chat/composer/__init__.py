"""The field for messages, and what opens from it: attached files, presets, settings, tools."""
