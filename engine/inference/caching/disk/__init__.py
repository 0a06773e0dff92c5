"""Caches of prompts kept in files: they outlive the model's time in memory, and the process."""
