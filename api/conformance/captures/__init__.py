"""Reads saved or pasted answers of any server tolerantly, and reports their faults."""
