"""Returns freed memory to the system: soon after the last work, and regularly while busy.

Engine thread only.
"""

import time

from engine.processes.interpreter import return_freed_memory

# How long the thread is idle before it returns freed memory; returning it delays allocations.
_RETURNED_AFTER_S = 1.0
# How often a thread that is never idle returns freed memory.
_RETURNED_EVERY_S = 5.0


class FreedMemory:
    """Knows whether memory may have been freed, and when to return it."""

    def __init__(self) -> None:
        self._has_any = False
        self._overdue_s = time.monotonic() + _RETURNED_EVERY_S

    def note(self) -> None:
        """Note that memory may have been freed."""
        self._has_any = True

    @property
    def wait_s(self) -> float | None:
        """How long an idle thread waits until it returns memory; None if none was freed."""
        return _RETURNED_AFTER_S if self._has_any else None

    def is_overdue(self, now_s: float) -> bool:
        """Whether a busy thread should return the memory now."""
        return self._has_any and now_s > self._overdue_s

    def give_back(self) -> bool:
        """Return the memory to the system; False if there was none to return."""
        if not self._has_any:
            return False
        self._has_any = False
        return_freed_memory()
        self._overdue_s = time.monotonic() + _RETURNED_EVERY_S
        return True
