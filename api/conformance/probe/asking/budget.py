"""How much a probe may do, and how much it has done. Belongs to one probe; its loop's thread."""

import time
from dataclasses import dataclass

TIME_IS_UP = "the time limit of the probe was reached"
# All answers of a probe are kept until its report is made.
_MOST_BYTES_IN_ALL = 64 * 1024 * 1024


class LimitReached(Exception):
    """The probe has sent as many requests, or taken as much time, as it may."""


@dataclass(slots=True)
class Budget:
    """How much a probe may still do.

    Attributes:
        max_requests: Requests that may be sent in all.
        ends_at_s: When it has to end, on the monotonic clock.
        requests: Requests sent.
        received_bytes: How much the answers were.
        waits: How often the server was busy and was waited for.
        waited_s: How long that took.
    """

    max_requests: int
    ends_at_s: float
    requests: int = 0
    received_bytes: int = 0
    waits: int = 0
    waited_s: float = 0.0

    def note(self, byte_count: int) -> None:
        """Note how much came."""
        self.received_bytes += byte_count

    def note_wait(self, wait_s: float) -> None:
        """Note that the server is waited for.

        Raises:
            LimitReached: There is no time for it.
        """
        if time.monotonic() + wait_s >= self.ends_at_s:
            raise LimitReached("the server is busy, and the time limit of the probe comes first")
        self.waits += 1
        self.waited_s += wait_s

    def spend(self) -> None:
        """Take one request from the budget.

        Raises:
            LimitReached: There is none left, or no time.
        """
        if self.requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests was reached")
        if self.received_bytes >= _MOST_BYTES_IN_ALL:
            raise LimitReached(f"the answers exceeded {_MOST_BYTES_IN_ALL >> 20} MiB in all")
        if time.monotonic() >= self.ends_at_s:
            raise LimitReached(TIME_IS_UP)
        self.requests += 1
