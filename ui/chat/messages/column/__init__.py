"""The scrolling column of a conversation's messages: slots, views near the screen, highlights."""
