"""Reads saved or pasted answers of any server tolerantly, and reports what is wrong in them."""
