"""Answers of any server, saved or pasted: read tolerantly, and what is wrong in them."""
