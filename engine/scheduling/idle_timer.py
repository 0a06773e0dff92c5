"""When a model was last used, and when it is unloaded because nobody uses it."""

import time


class IdleTimer:
    """The idle time of one model.

    Attributes:
        max_s: After how many idle seconds its memory is freed; None for never.
        has_own_limit: Whether ``max_s`` was set for this model alone.
        ends_at_once: Whether its memory is freed as soon as nothing runs.
        since_s: Since when nobody uses it; ``used_s`` when an answer last began or ended.
        used_at: The same in Unix seconds; None before its first use.
    """

    def __init__(self, max_s: float | None) -> None:
        self.max_s = max_s
        self.has_own_limit = self.ends_at_once = False
        self.since_s = self.used_s = time.monotonic()
        self.used_at: float | None = None

    def note_use(self) -> None:
        self.used_s, self.used_at = time.monotonic(), time.time()

    @property
    def _limit_s(self) -> float | None:
        return 0.0 if self.ends_at_once else self.max_s

    @property
    def due_s(self) -> float | None:
        """In how many seconds its memory should be freed; None for never."""
        limit_s = self._limit_s
        return None if limit_s is None else max(0.0, self.since_s + limit_s - time.monotonic())

    @property
    def unloads_at(self) -> float | None:
        limit_s = self._limit_s
        return None if limit_s is None or self.used_at is None else self.used_at + limit_s
