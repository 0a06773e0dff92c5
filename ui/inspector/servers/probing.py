"""A probe of a server: its progress and its result. Main thread."""

import asyncio
from typing import Literal

from PySide6.QtCore import QObject, Signal

from ui.inspector.run.tools import (
    InspectorTools,
    ProbeOutcome,
    ProbeProblem,
    ProbeProgress,
    ProbeRow,
    ProbeTarget,
)
from ui.kit.background.tasks import Tasks

Stage = Literal["idle", "running", "done", "failed", "cancelled"]


class Probing(QObject):
    """Runs one probe at a time; never saves a key.

    Signals:
        changed: The stage, the progress or the rows have changed.
    """

    changed = Signal()

    def __init__(self, tools: InspectorTools, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None
        self.stage: Stage = "idle"
        self.message = ""
        self.done = 0
        self.total = 0
        self.rows: list[ProbeRow] = []
        self.outcome: ProbeOutcome | None = None

    def start(self, target: ProbeTarget) -> None:
        """Probe a server, unless a probe is running."""
        if self.stage == "running":
            return
        if not target.url.strip():
            self._end("failed", "Type the address of a server, such as http://127.0.0.1:8642.")
            return
        self.stage, self.message = "running", "Detecting the API of the server…"
        self.done = self.total = 0
        self.rows, self.outcome = [], None
        self.changed.emit()
        self._task = self._tasks.start(self._run(target), "probe")

    def cancel(self) -> None:
        """Cancel the running probe; its results so far stay."""
        if self._task is not None and self.stage == "running":
            self._task.cancel()

    async def finish(self) -> None:
        """Cancel the background work and wait for its end."""
        self.cancel()
        await self._tasks.finish()

    async def _run(self, target: ProbeTarget) -> None:
        try:
            self.outcome = await self._tools.probe(target, self._take)
        except ProbeProblem as problem:
            self._end("failed", _sentence(str(problem)))
        except asyncio.CancelledError:
            self._end("cancelled", "Cancelled. The results so far are below.")
        except Exception:  # a bug must not leave the window waiting
            self._end("failed", "The probe itself failed. The log has the details.")
            raise
        else:
            self.rows = list(self.outcome.rows)
            self._end("done", self.outcome.summary)

    def _take(self, progress: ProbeProgress) -> None:
        self.done, self.total, self.message = progress.done, progress.total, progress.title
        if progress.row is not None:
            self.rows.append(progress.row)
        self.changed.emit()

    def _end(self, stage: Stage, message: str) -> None:
        self.stage, self.message = stage, message
        self.changed.emit()


def _sentence(words: str) -> str:
    """Return words as a complete sentence."""
    end = "" if words.endswith((".", "?", "!")) else "."
    begin = words if words.startswith("http") else f"{words[:1].upper()}{words[1:]}"
    return f"{begin}{end}"
