"""What one model of the engine thread is doing, as others are told of it.

Engine thread only.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from engine.inference.backend import Backend
from engine.scheduling.thread.commands import EngineStatus
from engine.scheduling.thread.models.idle_time import IdleTime


class SlotStatus:
    """The status of a model; whoever wants to know is told of each change.

    Args:
        on_status: Told of every change of state.
        idle: When the model's memory is to be freed.
        is_pinned: Whether it stays in memory when another model needs room.

    Attributes:
        now: What was told last.
        is_pinned: As above, as it is now.
        used_s: When something was asked last, in ``time.monotonic()`` seconds.
    """

    def __init__(
        self, on_status: Callable[[EngineStatus], None], idle: IdleTime, *, is_pinned: bool
    ) -> None:
        self.now = EngineStatus()
        self.is_pinned = is_pinned
        self.used_s = time.monotonic()
        self._used_at: float | None = None
        self._on_status = on_status
        self._idle = idle
        # The status before it was said what a load waits for.
        self._unsaid: EngineStatus | None = None

    def tell(self, status: EngineStatus) -> None:
        """Tell of another state."""
        self.now = replace(
            status,
            used_at=self._used_at,
            keeps_s=self._idle.keeps_s,
            is_pinned=self.is_pinned,
        )
        self._on_status(self.now)

    def tell_again(self) -> None:
        """Tell of the same state, because something beside it is another now."""
        self.tell(self.now)

    def note_use(self) -> None:
        """Note that something is asked of the model now."""
        self.used_s, self._used_at = time.monotonic(), time.time()

    def publish(
        self,
        backend: Backend | None,
        running: int,
        waiting: int,
        rows_bytes: Callable[[], int],
    ) -> None:
        """Tell of the numbers of answers, and of the prompt cache, only when they changed.

        Args:
            backend: The model, if it is loaded.
            running: Answers in the batch.
            waiting: Those that wait for a place, or for the model.
            rows_bytes: Returns what the caches of the running answers take.
        """
        status = self.now
        use = status.cache_use if backend is None else backend.cache_use
        if (running, waiting) != (status.running, status.waiting) or use is not status.cache_use:
            if running != status.running:
                self.note_use()
            held = 0
            if backend is not None:
                held = backend.info.weights_bytes + use.size_bytes + rows_bytes()
            self.tell(
                replace(status, running=running, waiting=waiting, cache_use=use, memory_bytes=held)
            )

    def say(self, message: str) -> None:
        """Tell what a load that is due waits for."""
        if self._unsaid is None:
            self._unsaid = self.now
        if self.now.message != message:
            self.tell(replace(self.now, state="loading", message=message))

    def unsay(self) -> None:
        """Tell that no load is due any more."""
        if self._unsaid is not None:
            before, self._unsaid = self._unsaid, None
            self.tell(before)

    def forget_unsaid(self) -> None:
        """Note that what a load waited for matters no more: another status follows at once."""
        self._unsaid = None
