"""Detects a hung engine thread: no finished step, chunk or part of a load within a time limit."""

import logging
import threading
from collections.abc import Callable

_TICK_S = 0.5
_log = logging.getLogger(__name__)


class ThreadAbandoned(BaseException):
    """Ends an engine thread that was abandoned, once it returns from where it hung."""


class Heartbeat:
    """Progress of the engine thread. The thread writes it; any thread may stop it."""

    def __init__(self) -> None:
        self.count = 0
        self.model: object | None = None
        self.is_loading = self.is_busy = self.is_stopped = False

    def beat(self, model: object | None = None, *, is_loading: bool = False) -> None:
        """Note that a piece of work begins; raises ``ThreadAbandoned`` in an abandoned thread."""
        if self.is_stopped:
            raise ThreadAbandoned
        self.count += 1
        self.model, self.is_loading, self.is_busy = model, is_loading, True

    def pause(self) -> None:
        """Note that the thread waits for jobs."""
        self.is_busy = False


class Watchdog:
    """Calls back once where a heartbeat has not risen for a number of seconds.

    Time is counted in ticks: the clock jumps when the computer sleeps.

    Args:
        on_tick: Called at each tick with the seconds since the last progress.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        limit_s: float,
        on_tick: Callable[[float], None],
        on_hang: Callable[[], None],
    ) -> None:
        self._heartbeat = heartbeat
        self._limit_s = limit_s
        self._on_tick = on_tick
        self._on_hang = on_hang
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="fullstop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()

    def _run(self) -> None:
        tick_s = min(_TICK_S, self._limit_s / 4)
        count, stalled_s = -1, 0.0
        while not self._stopped.wait(tick_s):
            heartbeat = self._heartbeat
            stalled_s = (
                stalled_s + tick_s if heartbeat.is_busy and heartbeat.count == count else 0.0
            )
            count = heartbeat.count
            try:
                self._on_tick(stalled_s)
            except Exception:
                _log.exception("the watchdog failed")
            if stalled_s >= self._limit_s:
                self._on_hang()
                return
