"""Keeps caches of prompts in a folder, so that they outlive the loaded model and the process.

Everything is written, read and deleted on two threads of its own, so that no token waits for a
disk. A cache that cannot be written is dropped, and the model reads a prompt again whose cache
cannot be read: no disk error reaches a reader. Any thread.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from engine.files.causes import os_cause
from engine.inference.caching.disk.cache_folder import CacheFolder
from engine.inference.caching.disk.serial_thread import SerialThread
from engine.inference.leaving import leave_thread
from engine.values.request import CacheOwner

_log = logging.getLogger(__name__)
# How long the program, when it ends, waits for caches that are still to be written.
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to keep a cache for an owner, until that owner is forgotten."""

    owner: CacheOwner
    epoch: tuple[int, int]


class DiskCache:
    """The kept caches of one folder.

    Args:
        path: The folder.
        most_bytes: Most bytes of all files; 0 keeps nothing, and deletes all existing files.

    Attributes:
        folder: The files.
        writer: The thread that writes and deletes.
        reader: The thread that reads, so that reading does not wait for writing.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.folder = CacheFolder(path)
        self.writer = SerialThread("fullstop-disk-writer", leave_thread, is_patient=True)
        self.reader = SerialThread("fullstop-disk-reader", leave_thread)
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        # Counters that go up whenever an owner, or every owner, is forgotten.
        self._epochs: defaultdict[CacheOwner, int] = defaultdict(int)
        self._epoch = 0
        self._is_failing = False
        self.writer.do(lambda: self.tried("tidied", self._tidy))

    @property
    def most_bytes(self) -> int:
        """Most bytes of all files."""
        return self._most_bytes

    def ticket(self, owner: CacheOwner) -> Ticket:
        """Return the right to keep caches for an owner from now on."""
        with self._lock:
            return Ticket(owner, (self._epoch, self._epochs.get(owner, 0)))

    def is_valid(self, ticket: Ticket) -> bool:
        """Whether caches may still be kept for a ticket."""
        return self._most_bytes > 0 and self.ticket(ticket.owner) == ticket

    def forget(self, owner: CacheOwner) -> "Future[None]":
        """Delete an owner's caches, including those that running answers would still write."""
        with self._lock:
            self._epochs[owner] += 1
        return self.writer.do(
            lambda: self.tried("deleted", lambda: self.folder.delete_owner(owner))
        )

    def forget_all(self) -> "Future[None]":
        """Delete all caches, including those that running answers would still write."""
        with self._lock:
            self._epoch += 1
        return self.writer.do(lambda: self.tried("deleted", lambda: self.folder.shrink_to(0)))

    def limit_to(self, most_bytes: int) -> None:
        """Keep at most this many bytes from now on."""
        if most_bytes == self._most_bytes:
            return
        self._most_bytes = most_bytes
        self.writer.do(lambda: self.tried("tidied", self._tidy))

    def _tidy(self) -> None:
        self.folder.sweep()
        self.folder.shrink_to(self._most_bytes)

    def measured(self) -> "Future[int]":
        """Return the bytes of all files, after all earlier work is done."""
        return self.writer.do(lambda: self.folder.size_bytes)

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Finish writing and end the threads; waits at most ``patience_s`` for each."""
        is_done = self.writer.close(patience_s)
        if not (self.reader.close(patience_s) and is_done):
            _log.warning("the caches of some prompts were not kept: the disk takes too long")

    def tried(self, what: str, work: Callable[[], object]) -> None:
        """Do work; log a failure once, and then no other until some work succeeds.

        Args:
            what: What the work does to caches, as a past participle, for the log.
            work: The work.
        """
        try:
            work()
        except OSError as error:
            self._complain(what, os_cause(error))
        except Exception as error:
            _log.debug("kept caches", exc_info=error)
            self._complain(what, f"{type(error).__name__}: {error}")
        else:
            self._is_failing = False

    def _complain(self, what: str, why: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            _log.warning("caches of prompts in %s are not %s: %s", self.folder.path, what, why)
