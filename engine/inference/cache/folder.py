"""The folder of caches on disk, its threads, and who may keep something there. Knows no MLX."""

import base64
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import queue
import re
import secrets
import shutil
import sys
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.files.safe_files import make_folders
from engine.processes import leave_thread
from engine.values.request import CacheOwner

# Raised by one whenever this program can no longer use the files of earlier versions. Those then
# belong to no model any more, and are the first that make room.
FORMAT = 3

# Tells models apart: files kept for one must never be used with another.
#
# A fingerprint covers the small files of a model (configuration, tokenizer, chat template, index
# of the weights) and, of each file of weights, its name, size, time of change, header (the names,
# types and places of all weights) and samples spread over the file. Reading all weights would
# take as long as loading the model. Different weights have different times and samples, even if
# names and sizes are the same, as in another fine-tune. Someone who could forge all of these in a
# person's own folder could as well replace the program. A fingerprint also covers everything else
# that a cache depends on: the versions of mlx and mlx-lm, the device, and the kinds of the
# cache's parts.

_SAMPLES = 16
_SAMPLE_BYTES = 4096
_MOST_SMALL = 64 << 20
_WEIGHTS = ".safetensors"
# The kinds of files that a model, its tokenizer and its template are read from.
_READ = (_WEIGHTS, ".json", ".jinja", ".model", ".tiktoken", ".txt")

Stamps = tuple[tuple[str, int, int], ...]
"""The names, sizes and times of change of a folder's files."""


def stamps_of(folder: Path) -> Stamps:
    """Return what tells later whether a model's files were changed; raises ``OSError``."""
    stamps = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ and not path.name.startswith(".") and path.is_file():
            seen = path.stat()
            stamps.append((path.name, seen.st_size, seen.st_mtime_ns))
    return tuple(stamps)


def fingerprint_of(folder: Path, stamps: Stamps, kinds: tuple[str, ...], device: str) -> str | None:
    """Return the fingerprint of a loaded model; None if its files changed since it was loaded."""
    digest = hashlib.sha256()
    words = [FORMAT, version("mlx"), version("mlx-lm"), device, *kinds]
    digest.update(repr(words).encode())
    for name, size, changed_ns in stamps:
        path = folder / name
        digest.update(f"\n{name!r} {size} ".encode())
        if path.suffix == _WEIGHTS or size > _MOST_SMALL:
            digest.update(f"{changed_ns} ".encode())
            _add_samples(digest, path, size)
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest() if stamps_of(folder) == stamps else None


def _add_samples(digest: "hashlib._Hash", path: Path, size: int) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if path.suffix == _WEIGHTS and length <= min(_MOST_SMALL, size):
            digest.update(file.read(length))
        for number in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))


# A thread that does one task after the other; it starts with the first task.

T = TypeVar("T")

_Work = Callable[[], None]
# The niceness of a patient thread, on systems where a single thread can have one.
_NICE = 10


class SerialThread:
    """Does work in the order in which it was given."""

    def __init__(self, name: str, leave: Callable[[], None], *, is_patient: bool = False) -> None:
        self._name = name
        self._leave = leave
        self._is_patient = is_patient
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def do(self, work: Callable[[], T]) -> "Future[T]":
        """Do work on the thread; return the future result, cancelled if the thread is closed."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # also panics of native libraries
                    future.set_exception(error)

        with self._lock:
            if self._is_closed:
                future.cancel()
                return future
            self._work.put(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return future

    def close(self, patience_s: float) -> bool:
        """Take no more work and wait until the queue is empty; False if that takes too long."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._work.put(None)
        if thread is None:
            return True
        thread.join(patience_s)
        return not thread.is_alive()

    def _run(self) -> None:
        if self._is_patient and sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (work := self._work.get()) is not None:
            work()
        with contextlib.suppress(Exception):
            self._leave()


# The description of a file in its header.
#
# A file holds keys and values of some consecutive tokens, or a snapshot of the layers that have
# none; its header has all tokens up to its end, so that each file finds its place by itself. The
# name of a file contains a digest of its content: a file that matches its name is intact.

_KEY = "fullstop"

TOKEN_BYTES = array("I").itemsize
"""The bytes of a token in the key of some tokens."""


@dataclass(slots=True, eq=False)
class StoredFile:
    """A file of the disk: keys and values of the tokens from ``start`` to ``end``, or the snapshot
    at ``end`` of the layers that have none.

    Attributes:
        name: Its name in the folder.
        kept_with: What its owner keeps it with; it is deleted with that.
        is_snapshot: Whether it holds a snapshot.
        can_trim: Whether that can be cut back to fewer tokens.
        size_bytes: Its size.
        nodes: The nodes of the index that use it.
    """

    name: str
    kept_with: str
    start: int
    end: int
    is_snapshot: bool = False
    can_trim: bool = False
    size_bytes: int = 0
    nodes: set[Any] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What a file holds.

    Attributes:
        model: The fingerprint of the model.
        owner: Who may use it.
        tokens: All tokens up to its end, as a key of the index.
        start: The first of them whose keys and values it holds.
        layout: Where the parts of the cache are; see ``layout_of``.
        is_snapshot: Whether it holds a snapshot; its ``start`` is 0.
        can_trim: Whether that can be cut back to fewer tokens.
    """

    model: str
    owner: CacheOwner
    tokens: bytes
    start: int
    layout: Any
    is_snapshot: bool = False
    can_trim: bool = False

    @property
    def end(self) -> int:
        """The number of tokens up to its end."""
        return len(self.tokens) // TOKEN_BYTES

    def stored_as(self, name: str, size_bytes: int) -> StoredFile:
        """Return the file of this name for the index."""
        kept_with = self.owner.kept_with or ""
        start = self.end if self.is_snapshot else self.start
        return StoredFile(
            name, kept_with, start, self.end, self.is_snapshot, self.can_trim, size_bytes
        )

    def to_metadata(self) -> dict[str, str]:
        """Return it as metadata of a safetensors file."""
        fields = {
            "format": FORMAT,
            "model": self.model,
            "owner": self.owner.name,
            "kept_with": self.owner.kept_with,
            "tokens": base64.b64encode(self.tokens).decode(),
            "start": self.start,
            "layout": self.layout,
            "is_snapshot": self.is_snapshot,
            "can_trim": self.can_trim,
        }
        return {_KEY: json.dumps(fields)}

    @classmethod
    def from_metadata(cls, metadata: object) -> "FileHeader":
        """Read it from a file's metadata."""
        try:
            fields = json.loads(metadata[_KEY])  # type: ignore[index]
            if fields["format"] != FORMAT:
                raise DamagedFile("of another version")
            header = cls(
                model=str(fields["model"]),
                owner=CacheOwner(str(fields["owner"]), str(fields["kept_with"])),
                tokens=base64.b64decode(fields["tokens"], validate=True),
                start=int(fields["start"]),
                layout=fields["layout"],
                is_snapshot=bool(fields["is_snapshot"]),
                can_trim=bool(fields["can_trim"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DamagedFile(str(error)) from error
        if not header.tokens or len(header.tokens) % TOKEN_BYTES:
            raise DamagedFile("its tokens are no token ids")
        if not 0 <= header.start < header.end or (header.is_snapshot and header.start):
            raise DamagedFile("its place is unclear")
        return header


# The folder of caches on disk: its files, their names, their sizes, their deletion.
#
# The folder itself is the only record of what is in it, so several processes may use it at the
# same time: a process that finds a file deleted continues without it.

_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{64})\.safetensors")
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{16}\.tmp")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
# Caches never use the last free space of a disk.
LEFT_FREE_BYTES = 512 << 20
_MOST_HEADER = 256 << 20
_LENGTH_BYTES = 8
_FRESH_S = 5.0


def tag(text: str) -> str:
    """Return a short digest of a text for names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the folder."""

    name: str
    size_bytes: int
    used_at_ns: int


class UnfinishedFile:
    """A file that is being written; it appears under its name all at once, or not at all.

    Fits ``mlx.core.save_safetensors`` as a file. A lock tells other processes that its writer
    lives.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"unfinished-{secrets.token_hex(8)}.tmp"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._path, flags, _FILE_MODE), "wb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._digest = hashlib.sha256()
        self._problem: OSError | None = None
        # MLX asks for these.
        self.name = str(self._path)
        self.closed = False

    def write(self, data: Any) -> int:
        """Append; ``commit`` raises an error of this call, because MLX would hide it here."""
        view = memoryview(data).cast("B")
        if self._problem is None:
            self._digest.update(view)
            try:
                rest = view
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as error:
                self._problem = error
        return len(view)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Refuse: the digest is that of bytes written one after the other."""
        raise OSError("a kept cache is written from its beginning to its end")

    def commit(self, prefix: str) -> str:
        """Sync the file to the disk and give it its name; return the name."""
        if self._problem is not None:
            raise self._problem
        os.fsync(self._file.fileno())
        name = f"{prefix}-{self._digest.hexdigest()}.safetensors"
        os.rename(self._path, self._path.parent / name)
        with contextlib.suppress(OSError):  # not every file system can do that
            number = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
        return name

    def close(self) -> None:
        """Close the file; one that was not committed is deleted."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._file.close()
        self.closed = True


class CacheFolder:
    """The files of kept caches."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[KeptFile]:
        """Return the kept files, the least recently used first."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # another process may delete it now
                        seen = entry.stat(follow_symlinks=False)
                        files.append(KeptFile(entry.name, seen.st_size, seen.st_mtime_ns))
        return sorted(files, key=lambda file: file.used_at_ns)

    def files_of_model(self, model: str) -> list[KeptFile]:
        """Return the files of the model with this fingerprint."""
        return [file for file in self.files() if file.name.startswith(f"{tag(model)}-")]

    @property
    def size_bytes(self) -> int:
        """The bytes of all kept files."""
        return sum(file.size_bytes for file in self.files())

    @staticmethod
    def prefix(model: str, owner: CacheOwner) -> str:
        """Return the beginning of the names of an owner's files for a model."""
        return f"{tag(model)}-{_owner_tag(owner)}"

    @contextlib.contextmanager
    def unfinished(self, size_bytes: int) -> Iterator[UnfinishedFile]:
        """Yield a file to be written."""
        make_folders(self.path)
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(_FOLDER_MODE)
        if shutil.disk_usage(self.path).free < size_bytes + LEFT_FREE_BYTES:
            raise OSError("the disk is nearly full")
        file = UnfinishedFile(self.path)
        try:
            yield file
        finally:
            file.close()

    def metadata(self, name: str) -> dict[str, str]:
        """Return the metadata of a file, without reading the rest of it."""
        with (self.path / name).open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if not 0 < length <= min(_MOST_HEADER, os.fstat(file.fileno()).st_size):
                raise ValueError("the header has no length")
            header = json.loads(file.read(length))
        metadata = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(metadata, dict):
            raise ValueError("there is no metadata")
        # mlx-lm puts the metadata of its caller before its own.
        return {key.removeprefix("0."): value for key, value in metadata.items()}

    def is_intact(self, name: str) -> bool:
        """Whether the content of a file is what its name says; raises ``OSError``."""
        with (self.path / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest_of(name)

    def touch(self, names: Iterable[str]) -> None:
        """Note that files were used, in this order; the last one is deleted last."""
        now = time.time_ns()
        for number, name in enumerate(names):
            with contextlib.suppress(OSError):
                os.utime(self.path / name, ns=(now + number, now + number))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; a file that is already gone is not an error."""
        problem: OSError | None = None
        for name in names:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem

    def delete_owner(self, owner: CacheOwner) -> list[str]:
        """Delete an owner's files, whatever model they are for; return their names."""
        names = [file.name for file in self.files() if file.name[17:33] == _owner_tag(owner)]
        self.delete(names)
        return names

    def shrink_to(self, most_bytes: int) -> list[str]:
        """Delete the least recently used files until the rest fits; return their names."""
        files = self.files()
        size = sum(file.size_bytes for file in files)
        gone = []
        for file in files:
            if size <= most_bytes:
                break
            size -= file.size_bytes
            gone.append(file.name)
        self.delete(gone)
        return gone

    def sweep(self) -> None:
        """Delete the unfinished files of processes that were killed."""
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _UNFINISHED.fullmatch(entry.name):
                    _delete_abandoned(self.path / entry.name)


def _owner_tag(owner: CacheOwner) -> str:
    return tag(f"{owner.name}\n{owner.kept_with}")


def digest_of(name: str) -> str:
    """Return the digest of a file's content, as its name says."""
    match = _NAME.fullmatch(name)
    return match[3] if match else ""


def _delete_abandoned(path: Path) -> None:
    """Delete an unfinished file, unless its writer still holds the lock on it."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime < _FRESH_S:
            return  # its writer may be about to lock it
        file: BinaryIO
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


# Keeps caches of prompts in a folder, so that they outlive the loaded model and the process.
#
# Everything is written, read and deleted on two threads of its own, so that no token waits for a
# disk. A cache that cannot be written is dropped, and the model reads a prompt again whose cache
# cannot be read: no disk error reaches a reader.

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
