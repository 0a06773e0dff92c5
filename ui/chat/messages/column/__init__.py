"""The scrolling column of a conversation's messages: places, views near the screen, marks."""
