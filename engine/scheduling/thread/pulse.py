"""Tells a thread that works from one that is stuck in a step.

The engine thread begins and ends; any thread asks.
"""

import time


class Pulse:
    """Since when the engine thread has worked at one step or command."""

    def __init__(self) -> None:
        # None while it waits or loads, which may take long.
        self._since_s: float | None = None

    def begin(self) -> float:
        """Note that a step or command begins; returns the time, ``time.monotonic()``."""
        self._since_s = now_s = time.monotonic()
        return now_s

    def end(self) -> None:
        """Note that the step or command is over, or that it may take long from here."""
        self._since_s = None

    def has_lasted(self, most_s: float) -> bool:
        """Whether one step or command has taken longer than this."""
        since_s = self._since_s
        return since_s is not None and time.monotonic() - since_s > most_s
