"""The recorded tokens of answers: one file for each run, in a folder of bounded size."""

import asyncio
import contextlib
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from app.private_files import made_private
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.files.safe_files import read_bounded, write_whole
from engine.recording.run_trace import RunTrace
from engine.recording.stored_trace import StoredTrace, packed, unpacked
from ui.records.pictures import load_pictures, name_pictures

_SUFFIX = ".trace"
_MAX_FILE_BYTES = 64 << 20
_MAX_DELETED_BYTES = 64 << 20
# Ids are hexadecimal; an imported one may be anything, and must not become a path.
_VALID_ID = re.compile(r"[0-9A-Za-z_-]{1,80}")
_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Method = Callable[Concatenate["TraceFiles", _P], _T]


def _on_thread(method: _Method[_P, _T]) -> _Method[_P, "Future[_T]"]:
    """Run a method on the thread of the files, after all earlier work; log its failure."""

    @wraps(method)
    def submit(files: "TraceFiles", /, *args: _P.args, **kwargs: _P.kwargs) -> "Future[_T]":
        def work() -> _T:
            try:
                return method(files, *args, **kwargs)
            except OSError as error:
                _log.warning("%s of traces failed: %s", method.__name__, os_cause(error))
                raise

        try:
            return files.thread.submit(work)
        except RuntimeError:  # closed
            future: Future[_T] = Future()
            future.cancel()
            return future

    return submit


class TraceFiles:
    """The traces in a folder.

    Fits ``ui.chat.session.traces.TraceStore``. Its methods are called on the main thread and
    return at once; one thread compresses, reads, writes and deletes, in order. The last deleted
    files stay in memory for undo.

    Args:
        folder: The folder, which is made when it is needed.
        max_bytes: The size of all files; 0 stores none.
        pictures: The folder of the conversations' pictures, which traces only name.
    """

    def __init__(self, folder: Path, max_bytes: int, pictures: Path | None = None) -> None:
        self._pictures = pictures
        self.thread = ThreadPoolExecutor(1, "fullstop-traces")
        self._max_bytes = max_bytes
        self._folder = folder
        # By run, with the size in bytes; read at first use.
        self._index: dict[str, tuple[StoredTrace, int]] | None = None
        self._deleted: OrderedDict[str, tuple[StoredTrace, bytes]] = OrderedDict()

    @_on_thread
    def save(self, conversation_id: str, run_id: str, trace: RunTrace) -> None:
        if self._pictures is not None and trace.request is not None:
            trace = replace(trace, request=name_pictures(trace.request))
        content = packed(trace)
        if self._is_allowed(conversation_id, run_id, content):
            self._write(StoredTrace(run_id, conversation_id, time.time()), content)
            self._prune()

    async def load(self, run_id: str) -> RunTrace | None:
        content = await asyncio.wrap_future(self.content(run_id))
        try:
            return None if content is None else await asyncio.to_thread(self._unpacked, content)
        except DamagedFile as error:
            # The file is not deleted: a later version may have written it.
            _log.warning("the trace of the run %s cannot be read: %s", run_id, error)
            return None

    def _unpacked(self, content: bytes) -> RunTrace:
        trace = unpacked(content)
        if self._pictures is not None and trace.request is not None:
            try:
                trace.request = load_pictures(trace.request, self._pictures)
            except OSError:  # deleted by hand
                trace.request = None
        return trace

    @_on_thread
    def limit_to(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._prune()

    @_on_thread
    def retain(self, conversation_ids: frozenset[str]) -> None:
        """Delete the traces of all other conversations: these have been deleted."""
        for run_id, (stored, _) in list(self._files().items()):
            if stored.conversation_id not in conversation_ids:
                self._delete(run_id)

    @_on_thread
    def forget_all(self) -> None:
        self._deleted.clear()
        for run_id in list(self._files()):
            self._delete(run_id)

    @_on_thread
    def measured(self) -> int:
        return sum(size for _, size in self._files().values())

    @_on_thread
    def stored(self) -> list[StoredTrace]:
        return sorted(
            (stored for stored, _ in self._files().values()), key=lambda stored: stored.written_at
        )

    @_on_thread
    def content(self, run_id: str) -> bytes | None:
        return self._read(run_id)

    @_on_thread
    def take_in(self, stored: StoredTrace, content: bytes) -> bool:
        """Write an imported trace, or raise ``DamagedFile``; return whether there was space."""
        unpacked(content)
        if not self._is_allowed(stored.conversation_id, stored.run_id, content):
            return False
        self._write(stored, content)
        self._prune()
        return stored.run_id in self._files()

    @_on_thread
    def copy(self, run_ids: Mapping[str, str], conversation_id: str) -> None:
        """Write copies of traces for copied runs; each is as old as its original."""
        for run_id, original in run_ids.items():
            if (content := self._read(original)) is not None:
                written_at = self._files()[original][0].written_at
                self._write(StoredTrace(run_id, conversation_id, written_at), content)
        self._prune()

    @_on_thread
    def delete(self, run_ids: frozenset[str]) -> None:
        for run_id in run_ids & self._files().keys():
            if (content := self._read(run_id)) is not None:
                self._deleted[run_id] = self._files()[run_id][0], content
            self._delete(run_id)
        while sum(len(content) for _, content in self._deleted.values()) > _MAX_DELETED_BYTES:
            self._deleted.popitem(last=False)

    @_on_thread
    def restore(self, run_ids: frozenset[str]) -> None:
        """Bring back deleted traces, unless all traces were deleted since."""
        for run_id in run_ids & self._deleted.keys():
            self._write(*self._deleted.pop(run_id))
        self._prune()

    def close(self) -> None:
        self.thread.shutdown()

    # -- on the thread of the files --------------------------------------------------------

    def _files(self) -> dict[str, tuple[StoredTrace, int]]:
        if self._index is None:
            self._index = {}
            for path in self._folder.glob(f"*{_SUFFIX}"):
                conversation_id, _, run_id = path.name.removesuffix(_SUFFIX).partition(".")
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    stored = StoredTrace(run_id, conversation_id, status.st_mtime)
                    self._index[run_id] = stored, status.st_size
        return self._index

    def _is_allowed(self, conversation_id: str, run_id: str, content: bytes) -> bool:
        is_valid = _VALID_ID.fullmatch(conversation_id) and _VALID_ID.fullmatch(run_id)
        return bool(is_valid) and len(content) <= min(self._max_bytes, _MAX_FILE_BYTES)

    def _read(self, run_id: str) -> bytes | None:
        known = self._files().get(run_id)
        try:
            return None if known is None else read_bounded(self._path(known[0]), _MAX_FILE_BYTES)
        except OSError as error:
            _log.warning("the trace of the run %s cannot be read: %s", run_id, os_cause(error))
            return None

    def _write(self, stored: StoredTrace, content: bytes) -> None:
        """Write a trace with its own age: the oldest are deleted first."""
        path = self._path(stored)
        made_private(self._folder)
        write_whole(path, content)
        os.utime(path, (stored.written_at, stored.written_at))
        self._files()[stored.run_id] = stored, len(content)

    def _prune(self) -> None:
        files = self._files()
        total = sum(size for _, size in files.values())
        for stored, size in sorted(files.values(), key=lambda item: item[0].written_at):
            if total <= self._max_bytes:
                return
            self._delete(stored.run_id)
            total -= size

    def _delete(self, run_id: str) -> None:
        known = self._files().pop(run_id, None)
        if known is not None:
            self._path(known[0]).unlink(missing_ok=True)

    def _path(self, stored: StoredTrace) -> Path:
        return self._folder / f"{stored.conversation_id}.{stored.run_id}{_SUFFIX}"
