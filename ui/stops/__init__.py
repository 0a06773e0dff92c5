"""The stop list of a conversation: its rows, its remarks, and the editor that shows them."""
