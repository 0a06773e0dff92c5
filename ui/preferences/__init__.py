"""What belongs to the program and not to a conversation: its state, dialog and menu."""
