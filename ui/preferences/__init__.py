"""The preferences, which belong to the program and not to a conversation: state, dialog, menu."""
