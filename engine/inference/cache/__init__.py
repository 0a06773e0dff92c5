"""Caches of prompts that were read: one tree in memory, files on disk, what both cost."""
