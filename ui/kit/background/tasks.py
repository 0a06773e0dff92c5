"""Background tasks of view-models on the running loop: kept until they end, failures logged.

Main thread. Under qasync the running loop is Qt's own, so that slots may start tasks.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class Tasks:
    """The unfinished tasks of one owner. asyncio itself keeps only weak references to tasks."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start work on the running loop and return its task; failures are logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._open.add(task)
        task.add_done_callback(self._finished)
        return task

    async def finish(self) -> None:
        """Wait until all tasks have ended."""
        while self._open:
            await asyncio.gather(*self._open, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)
