"""Finds out what any server does with stops: asks it, compares its answers, reports the faults."""
