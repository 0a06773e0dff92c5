"""The status line of a terminal: how far models are loaded, and the load of a server."""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from app.printer import Printer
from app.process.streams import takes_controls
from engine import Engine, ModelStatus
from engine.wording import counted
from ui.models.model_words import loading_text, passed

if TYPE_CHECKING:
    from api.service.metrics import Metrics

# Loads are logged even by a server that otherwise logs only warnings.
LOADS = logging.getLogger("app.loads")


class LoadMeter:
    """Describes how far an engine has loaded its models, and for how long each has been loading."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began_s: dict[str, float] = {}

    def text(self) -> str:
        """Return the progress in one line; empty while nothing is loaded."""
        return "  ·  ".join(filter(None, map(self._progress, self._statuses)))

    def server_text(self, metrics: "Metrics | None") -> str:
        """Return the current load of all models in one line."""
        statuses = self._statuses
        running = sum(status.running for status in statuses)
        waiting = sum(status.waiting for status in statuses)
        parts = [f"{running:,} answering", f"{waiting:,} waiting"]
        if loading := self.text():
            parts.append(loading)
        elif not any(status.is_loaded for status in statuses) and any(
            status.is_unloaded for status in statuses
        ):
            parts.append("the model is unloaded until the next request")
        if metrics is not None:
            parts.append(counted(metrics.answered_requests, "request"))
            parts.append(counted(metrics.output_tokens, "output token"))
        return " · ".join(parts)

    async def log(self, interval_s: float = 1.0) -> None:
        """Log the progress of each load, and how it ended; ends when cancelled."""
        loading: set[str] = set()
        while True:
            await asyncio.sleep(interval_s)
            for status in self._statuses:
                if text := self._progress(status):
                    progress = (
                        None if status.loading is None else dataclasses.asdict(status.loading)
                    )
                    LOADS.info("%s", text, extra={"fields": progress or {}})
                    loading.add(status.id)
                elif status.id in loading:
                    loading.discard(status.id)
                    if status.info is not None and not status.message:
                        fields = {"model": status.info.id, "memory_bytes": status.memory_bytes}
                        LOADS.info("loaded: %s", status.info.id, extra={"fields": fields})
                    else:
                        LOADS.warning("not loaded: %s", status.message)

    @property
    def _statuses(self) -> Sequence[ModelStatus]:
        return self._engine.models or (self._engine.status,)

    def _progress(self, status: ModelStatus) -> str:
        if status.state != "loading":
            self._began_s.pop(status.id, None)
            return ""
        took_s = time.monotonic() - self._began_s.setdefault(status.id, time.monotonic())
        if status.loading is None:  # it has not begun, or waits for another model
            return f"{passed(took_s)}  ·  {status.message}"
        # The name comes last: it may be longer than the terminal is wide.
        return f"loading: {loading_text(status.loading, took_s, 0)}  ·  {status.message}"


@contextlib.asynccontextmanager
async def live_line(text: Callable[[], str], terminal: TextIO) -> AsyncIterator[None]:
    """Show a text in a line on a terminal during the block; nothing in a pipe."""
    if not takes_controls(terminal):
        yield
        return
    printer = Printer(err=terminal)

    async def show() -> None:
        while True:
            # Written again each time, because a log line may have replaced it.
            printer.status(text())
            await asyncio.sleep(0.5)

    showing = asyncio.create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
        printer.status("")
