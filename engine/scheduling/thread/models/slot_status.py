"""Publishes the status of one model of the engine thread.

Engine thread only.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.scheduling.thread.commands import EngineStatus
from engine.scheduling.thread.models.idle_time import IdleTime

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class SlotStatus:
    """The status of a model, with a callback for each change."""

    def __init__(
        self, on_status: Callable[[EngineStatus], None], idle: IdleTime, *, is_pinned: bool
    ) -> None:
        self.now = EngineStatus()
        self.is_pinned = is_pinned
        self.used_s = time.monotonic()
        self._used_at: float | None = None
        self._on_status = on_status
        self._idle = idle
        # The status before the message about what a load waits for; None without such a message.
        self._unsaid: EngineStatus | None = None

    def tell(self, status: EngineStatus) -> None:
        """Publish another status."""
        self.now = replace(
            status,
            used_at=self._used_at,
            keeps_s=self._idle.keeps_s,
            is_pinned=self.is_pinned,
        )
        self._on_status(self.now)

    def tell_again(self) -> None:
        """Publish the same state again, because a figure beside it has changed."""
        self.tell(self.now)

    def note_use(self) -> None:
        """Note that the model is used now."""
        self.used_s, self._used_at = time.monotonic(), time.time()

    def publish(
        self,
        backend: "MlxBackend | None",
        running: int,
        waiting: int,
        rows_bytes: Callable[[], int],
    ) -> None:
        """Publish the numbers of answers and the use of the prompt cache, if they changed."""
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
        """Publish a message about what a due load waits for."""
        if self._unsaid is None:
            self._unsaid = self.now
        if self.now.message != message:
            self.tell(replace(self.now, state="loading", message=message))

    def unsay(self) -> None:
        """Withdraw that message: no load is due any more."""
        if self._unsaid is not None:
            before, self._unsaid = self._unsaid, None
            self.tell(before)

    def forget_unsaid(self) -> None:
        """Forget that message: another status follows at once."""
        self._unsaid = None
