"""How long a model is idle, and when its memory should therefore be freed.

Knows no model. Engine thread only.
"""

import time


class IdleTime:
    """The idle time of one model."""

    def __init__(self) -> None:
        self.most_s: float | None = None
        self.is_over = False
        self._began_s = time.monotonic()

    def begin_anew(self) -> None:
        """Note that the model is used now: the idle time begins again."""
        self._began_s = time.monotonic()

    @property
    def keeps_s(self) -> float | None:
        """How long an idle model stays in memory; None for no limit."""
        return 0.0 if self.is_over else self.most_s

    @property
    def due_s(self) -> float | None:
        """In how many seconds the memory of a loaded model should be freed; None for never."""
        if self.is_over:
            return 0.0
        if self.most_s is None:
            return None
        return max(0.0, self._began_s + self.most_s - time.monotonic())
