"""Keeps the traces of answers as files, one for each run; deletes the oldest first.

Fits ``ui.chat.session.traces.TraceKeeper``. Its methods are called on the main thread and return
at once; one thread compresses, writes and deletes, in order.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec

from app.store.traces.trace_folder import TraceFolder, is_usable
from engine.files.later import Later
from engine.recording.kept_trace import KeptTrace
from engine.recording.run_trace import RunTrace

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_TRIED_AGAIN_AFTER_S = 5.0


class TraceFiles:
    """The traces in a folder.

    Deleted files leave the disk at once; the last ones stay in memory for undo.

    Args:
        folder: The folder, which is made when it is needed.
        most_bytes: How much disk space they may take; 0 keeps none.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._thread = ThreadPoolExecutor(1, "fullstop-traces")
        self._again = Later(_TRIED_AGAIN_AFTER_S, lambda: self._submit(self._folder.write_waiting))
        self._folder = TraceFolder(folder, most_bytes, self._again.begin)

    def keep(self, conversation_id: str, run_id: str, trace: RunTrace) -> None:
        """Keep the trace of a run that has ended.

        Args:
            conversation_id: The conversation's id.
            run_id: The run's id.
            trace: The trace.
        """
        if self._folder.most_bytes and is_usable(conversation_id, run_id):
            self._submit(self._folder.keep, conversation_id, run_id, trace)

    async def load(self, run_id: str) -> RunTrace | None:
        """Return the trace of a run; None if none is kept, or it cannot be read."""
        return await asyncio.wrap_future(self._thread.submit(self._folder.load, run_id))

    def limit_to(self, most_bytes: int) -> None:
        """Change how much disk space they may take."""
        self._folder.most_bytes = most_bytes
        self._submit(self._folder.prune)

    def keep_only(self, conversation_ids: frozenset[str]) -> None:
        """Delete the traces of all other conversations: these have been deleted."""
        self._submit(self._folder.keep_only, conversation_ids)

    def delete(self, run_ids: frozenset[str]) -> None:
        """Delete the traces of runs; ``restore`` can bring them back."""
        self._submit(self._folder.delete_runs, run_ids)

    def restore(self, run_ids: frozenset[str]) -> None:
        """Bring back deleted traces, unless all traces were deleted since."""
        self._submit(self._folder.restore, run_ids)

    def copy(self, run_ids: Mapping[str, str], conversation_id: str) -> None:
        """Keep copies of traces for runs that were copied; each is as old as its original.

        Args:
            run_ids: The ids of the originals, by those of their copies.
            conversation_id: The conversation that the copies belong to.
        """
        self._submit(self._folder.copy, dict(run_ids), conversation_id)

    def measured(self) -> "Future[int]":
        """Return their size in bytes, after all earlier work is done."""
        return self._thread.submit(self._folder.size_bytes)

    def kept(self) -> "Future[list[KeptTrace]]":
        """Return which traces are kept, the oldest first."""
        return self._thread.submit(self._folder.kept)

    def content(self, run_id: str) -> "Future[bytes | None]":
        """Return the stored bytes of a trace; None if it is gone or cannot be read."""
        return self._thread.submit(self._folder.content, run_id)

    def take_in(self, kept: KeptTrace, content: bytes) -> "Future[bool]":
        """Keep an imported trace, if there is room for one of its age.

        Args:
            kept: Its run and its age.
            content: The trace as ``content`` returned it.

        Returns:
            Whether that run's trace is kept now; raises ``DamagedFile`` where it is none, and
            ``OSError`` where the disk does not take it.
        """
        return self._thread.submit(self._folder.take_in, kept, content)

    def forget_all(self) -> "Future[None]":
        """Delete all of them; the future ends when that is done."""
        return self._thread.submit(self._folder.forget_all)

    def close(self) -> None:
        """Finish the pending work, and accept no more."""
        self._submit(self._folder.write_waiting)
        self._thread.shutdown()
        self._again.cancel()

    def _submit(self, work: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._thread.submit(_logged, lambda: work(*args, **kwargs))


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        _log.exception("a trace could not be kept or deleted")
