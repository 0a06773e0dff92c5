"""Keeps the recorded tokens of answers in a folder of bounded size."""

import asyncio
import contextlib
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from app.paths import made_private
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.files.safe_files import Later, read_bounded, write_whole
from engine.recording.run_trace import KeptTrace, RunTrace, packed, unpacked

# One file for each run. Failed writes are kept in memory and tried again. A file that cannot be
# read stays where it is, and does not affect others.

_log = logging.getLogger(__name__)
_SUFFIX = ".trace"
_MOST_FILE_BYTES = 64 << 20
_MOST_DELETED_BYTES = 64 << 20
# The most that may wait for a full disk; beyond it, the oldest is dropped.
_MOST_WAITING_BYTES = 64 << 20
_TRIED_AGAIN_AFTER_S = 5.0
# Ids are hexadecimal; an imported one may be anything, and must not become a path.
_USABLE = re.compile(r"[0-9A-Za-z_-]{1,80}")


def is_usable(conversation_id: str, run_id: str) -> bool:
    """Return whether two ids can name a file."""
    return bool(_USABLE.fullmatch(conversation_id) and _USABLE.fullmatch(run_id))


class _KeptFile(NamedTuple):
    """A file: its run, when it was written, and its size."""

    conversation_id: str
    written_at: float
    size_bytes: int
    path: Path


class _DeletedFile(NamedTuple):
    """A deleted file, for undo."""

    file: _KeptFile
    content: bytes


_P = ParamSpec("_P")
_T = TypeVar("_T")
_Work = Callable[Concatenate["TraceFiles", _P], _T]


def _answered(work: _Work[_P, _T]) -> _Work[_P, "Future[_T]"]:
    """Return a method that has the thread of the files do its work, after all earlier work."""

    @wraps(work)
    def begin(files: "TraceFiles", /, *args: _P.args, **kwargs: _P.kwargs) -> "Future[_T]":
        return files.thread.submit(work, files, *args, **kwargs)

    return begin


def _queued(work: _Work[_P, None]) -> _Work[_P, None]:
    """Return a method that does so and has no result: a failure is logged."""

    @wraps(work)
    def logged(files: "TraceFiles", /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            work(files, *args, **kwargs)
        except Exception:
            _log.exception("a trace could not be kept or deleted")

    @wraps(work)
    def begin(files: "TraceFiles", /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            files.thread.submit(logged, files, *args, **kwargs)

    return begin


class TraceFiles:
    """The traces in a folder.

    Fits ``ui.chat.session.traces.TraceKeeper``. Its methods are called on the main thread and
    return at once; one thread compresses, reads, writes and deletes, in order. Deleted files leave
    the disk at once; the last ones stay in memory for undo.

    Args:
        folder: The folder, which is made when it is needed.
        most_bytes: How much disk space they may take; 0 keeps none.

    Attributes:
        thread: Does all work on the files, in order.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.thread = ThreadPoolExecutor(1, "fullstop-traces")
        self._again = Later(_TRIED_AGAIN_AFTER_S, self._write_again)
        self._most_bytes = most_bytes
        self._folder = folder
        # By run; read from the folder at first use.
        self._found: dict[str, _KeptFile] | None = None
        self._deleted: OrderedDict[str, _DeletedFile] = OrderedDict()
        # By run, what the disk has not taken yet: whose it is, and its content.
        self._waiting: dict[str, tuple[str, bytes]] = {}
        self._is_failing = False

    # -- for the main thread ---------------------------------------------------------------

    @_queued
    def keep(self, conversation_id: str, run_id: str, trace: RunTrace) -> None:
        """Keep the trace of a run that has ended, if it is not too large."""
        if not self._most_bytes or not is_usable(conversation_id, run_id):
            return
        content = packed(trace)
        if self._is_small(content):
            self._waiting[run_id] = conversation_id, content
            self._write_waiting()

    async def load(self, run_id: str) -> RunTrace | None:
        """Return the trace of a run; None if none is kept, or it cannot be read."""
        return await asyncio.wrap_future(self._load(run_id))

    @_queued
    def limit_to(self, most_bytes: int) -> None:
        """Change how much disk space they may take."""
        self._most_bytes = most_bytes
        self._prune()

    @_queued
    def keep_only(self, conversation_ids: frozenset[str]) -> None:
        """Delete the traces of all other conversations: these have been deleted."""
        self._delete_others(conversation_ids)

    @_answered
    def forget_all(self) -> None:
        """Delete all traces, those for undo as well; the future ends when that is done."""
        self._deleted.clear()
        self._delete_others(frozenset())

    @_answered
    def measured(self) -> int:
        """Return how many bytes the files have, after all earlier work is done."""
        return sum(file.size_bytes for file in self._files().values())

    @_answered
    def kept(self) -> list[KeptTrace]:
        """Return which traces are kept, the oldest first."""
        files = [
            KeptTrace(run_id, file.conversation_id, file.written_at)
            for run_id, file in self._files().items()
            if run_id not in self._waiting
        ]
        now = time.time()
        waiting = [KeptTrace(run_id, owner, now) for run_id, (owner, _) in self._waiting.items()]
        return sorted(files, key=lambda trace: trace.written_at) + waiting

    @_answered
    def content(self, run_id: str) -> bytes | None:
        """Return the stored bytes of a trace; None if it is gone or cannot be read."""
        return self._content(run_id)

    @_answered
    def take_in(self, kept: KeptTrace, content: bytes) -> bool:
        """Keep an imported trace, if there is room for one of its age.

        Args:
            kept: Its run and its age.
            content: The trace as ``content`` returned it.

        Returns:
            Whether that run's trace is kept now; raises ``DamagedFile`` where it is none, and
            ``OSError`` where the disk does not take it.
        """
        unpacked(content)
        if not is_usable(kept.conversation_id, kept.run_id) or not self._is_small(content):
            return False
        self._put(kept, content)
        self._prune()
        return kept.run_id in self._files()

    @_queued
    def copy(self, run_ids: Mapping[str, str], conversation_id: str) -> None:
        """Keep copies of traces for runs that were copied; each is as old as its original.

        Args:
            run_ids: The ids of the originals, by those of their copies.
            conversation_id: The conversation that the copies belong to.
        """
        for run_id, original in run_ids.items():
            content = self._content(original)
            if content is None:
                continue
            file = self._files().get(original)
            if file is None or original in self._waiting:
                self._waiting[run_id] = conversation_id, content
                continue
            try:
                self._put(KeptTrace(run_id, conversation_id, file.written_at), content)
            except OSError:
                self._waiting[run_id] = conversation_id, content
        self._write_waiting()
        self._prune()

    @_queued
    def delete(self, run_ids: frozenset[str]) -> None:
        """Delete the traces of runs; ``restore`` can bring them back."""
        files = self._files()
        for run_id in run_ids & files.keys():
            file = files[run_id]
            with contextlib.suppress(OSError):
                content = read_bounded(file.path, _MOST_FILE_BYTES)
                self._deleted[run_id] = _DeletedFile(file, content)
            self._delete(run_id)
        for run_id in run_ids & self._waiting.keys():
            conversation_id, content = self._waiting.pop(run_id)
            path = self._path_of(conversation_id, run_id)
            file = _KeptFile(conversation_id, time.time(), len(content), path)
            self._deleted[run_id] = _DeletedFile(file, content)
        while sum(len(file.content) for file in self._deleted.values()) > _MOST_DELETED_BYTES:
            self._deleted.popitem(last=False)

    @_queued
    def restore(self, run_ids: frozenset[str]) -> None:
        """Bring back deleted traces, unless all traces were deleted since."""
        for run_id in run_ids & self._deleted.keys():
            file, content = self._deleted.pop(run_id)
            try:
                self._put(KeptTrace(run_id, file.conversation_id, file.written_at), content)
            except OSError:
                self._waiting[run_id] = file.conversation_id, content
                self._again.begin()
        self._prune()

    def close(self) -> None:
        """Finish the pending work, and accept no more."""
        self._write_again()
        self.thread.shutdown()
        self._again.cancel()

    # -- on the thread of the files --------------------------------------------------------

    @_answered
    def _load(self, run_id: str) -> RunTrace | None:
        content = self._content(run_id)
        try:
            return None if content is None else unpacked(content)
        except DamagedFile as error:
            # It stays: a later version may have written it.
            _log.warning("the trace of the run %s cannot be read: %s", run_id, error)
            return None

    @_queued
    def _write_again(self) -> None:
        self._write_waiting()

    def _files(self) -> dict[str, _KeptFile]:
        if self._found is None:
            self._found = {}
            with contextlib.suppress(OSError):
                for path in self._folder.glob(f"*{_SUFFIX}"):
                    conversation_id, _, run_id = path.name.removesuffix(_SUFFIX).partition(".")
                    with contextlib.suppress(OSError):
                        facts = path.lstat()
                        self._found[run_id] = _KeptFile(
                            conversation_id, facts.st_mtime, facts.st_size, path
                        )
        return self._found

    def _write_waiting(self) -> None:
        """Write what the disk has not taken yet, in order; try again later where it still fails."""
        for run_id, (conversation_id, content) in list(self._waiting.items()):
            try:
                self._put(KeptTrace(run_id, conversation_id, time.time()), content)
                self._prune()
            except OSError as error:
                if not self._is_failing:  # log once, not for each trace
                    _log.warning("traces cannot be written now: %s", os_cause(error))
                self._is_failing = True
                self._bound_waiting()
                self._again.begin()
                return
            self._waiting.pop(run_id, None)
        self._is_failing = False

    def _is_small(self, content: bytes) -> bool:
        return len(content) <= min(self._most_bytes, _MOST_FILE_BYTES)

    def _bound_waiting(self) -> None:
        size = sum(len(content) for _, content in self._waiting.values())
        for run_id in list(self._waiting):
            if size <= _MOST_WAITING_BYTES:
                return
            size -= len(self._waiting.pop(run_id)[1])

    def _content(self, run_id: str) -> bytes | None:
        if run_id in self._waiting:
            return self._waiting[run_id][1]
        file = self._files().get(run_id)
        if file is None:
            return None
        try:
            return read_bounded(file.path, _MOST_FILE_BYTES)
        except OSError as error:  # it stays: too many files may be open
            _log.warning("the trace %s cannot be read: %s", file.path.name, os_cause(error))
            return None

    def _path_of(self, conversation_id: str, run_id: str) -> Path:
        return self._folder / f"{conversation_id}.{run_id}{_SUFFIX}"

    def _put(self, kept: KeptTrace, content: bytes) -> None:
        """Write a trace that is as old as it is said to be: the oldest go first."""
        run_id, conversation_id, written_at = kept
        path = self._path_of(conversation_id, run_id)
        made_private(self._folder)
        write_whole(path, content)
        os.utime(path, (written_at, written_at))
        self._files()[run_id] = _KeptFile(conversation_id, written_at, len(content), path)

    def _prune(self) -> None:
        """Delete the oldest traces until the others fit into the limit."""
        if not self._most_bytes:
            self._waiting.clear()
        files = self._files()
        total = sum(file.size_bytes for file in files.values())
        if total <= self._most_bytes:
            return
        for run_id, file in sorted(files.items(), key=lambda item: item[1].written_at):
            self._delete(run_id)
            total -= file.size_bytes
            if total <= self._most_bytes:
                return

    def _delete_others(self, conversation_ids: frozenset[str]) -> None:
        for run_id, file in list(self._files().items()):
            if file.conversation_id not in conversation_ids:
                self._delete(run_id)
        for run_id, (conversation_id, _) in list(self._waiting.items()):
            if conversation_id not in conversation_ids:
                del self._waiting[run_id]

    def _delete(self, run_id: str) -> None:
        file = self._files().pop(run_id, None)
        if file is not None:
            with contextlib.suppress(FileNotFoundError):
                file.path.unlink()
