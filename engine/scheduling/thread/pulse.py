"""Detects whether the engine thread is stuck in a step.

The engine thread calls ``begin`` and ``end``; any thread may ask.
"""

import time


class Pulse:
    """How long the engine thread has worked on one step or command."""

    def __init__(self) -> None:
        # None while it waits or loads a model, because both may take long.
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
