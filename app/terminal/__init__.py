"""Answers and conversations in the terminal. Needs no Qt."""
