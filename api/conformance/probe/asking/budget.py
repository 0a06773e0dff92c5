"""Limits how much a probe may do. One for each probe; its loop's thread."""

import time
from dataclasses import dataclass

TIME_IS_UP = "the time limit of the probe was reached"
# All answers of a probe stay in memory until its report is made.
_MOST_BYTES_IN_ALL = 64 * 1024 * 1024


class LimitReached(Exception):
    """The probe has reached its limit of requests, time or bytes."""


@dataclass(slots=True)
class Budget:
    """The remaining budget of a probe.

    Attributes:
        max_requests: Requests that may be sent in all.
        ends_at_s: When it must end, on the monotonic clock.
        requests: Requests sent.
        received_bytes: The size of all answers.
        waits: How often the probe waited for a busy server.
        waited_s: How long it waited in all.
    """

    max_requests: int
    ends_at_s: float
    requests: int = 0
    received_bytes: int = 0
    waits: int = 0
    waited_s: float = 0.0

    def note(self, byte_count: int) -> None:
        """Count received bytes."""
        self.received_bytes += byte_count

    def note_wait(self, wait_s: float) -> None:
        """Count a wait for the server.

        Raises:
            LimitReached: There is not enough time left.
        """
        if time.monotonic() + wait_s >= self.ends_at_s:
            raise LimitReached("the server is busy, and the time limit of the probe comes first")
        self.waits += 1
        self.waited_s += wait_s

    def spend(self) -> None:
        """Take one request from the budget.

        Raises:
            LimitReached: No request is left, or no time.
        """
        if self.requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests was reached")
        if self.received_bytes >= _MOST_BYTES_IN_ALL:
            raise LimitReached(f"the answers exceeded {_MOST_BYTES_IN_ALL >> 20} MiB in all")
        if time.monotonic() >= self.ends_at_s:
            raise LimitReached(TIME_IS_UP)
        self.requests += 1
