"""Caches of prompts that were read: what they measure, and which are kept."""
