"""The folder of prompt caches on disk, and its two threads. Knows no MLX.

A file holds the keys and values of one block of tokens, or a snapshot of the layers that have none.
The folder is the only record of its content, so several processes may use it: a process that finds
a file deleted continues without it. A file's name contains the digest of its content.

Caches that one model made are never used with another: a fingerprint covers the model's folder, the
name, size and time of change of each file that a model, its tokenizer and its template are read
from, the versions of mlx and mlx-lm, the device, and the kinds of the cache's parts.

No disk error ends an answer: a cache that cannot be written is dropped, and the model reads a
prompt again whose cache cannot be read.
"""

import base64
import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.files.safe_files import make_folders
from engine.library.weights import read_header
from engine.threads import free_mlx_thread
from engine.values.request import CacheOwner

TOKEN_BYTES = array("I").itemsize
"""The bytes of a token in a key."""
# Caches never use the last free space of a disk.
MIN_FREE_BYTES = 512 << 20
# Raised whenever files of earlier versions can no longer be used; they are evicted first.
FORMAT = 5
_SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".tiktoken", ".txt")

Stamps = tuple[tuple[str, int, int], ...]
"""The names, sizes and times of change of a folder's files."""
_KEY = "fullstop"
_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{64})\.safetensors")
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{16}\.(tmp|safetensors)")

_log = logging.getLogger(__name__)
T = TypeVar("T")


def stamps_of(folder: Path) -> Stamps:
    """Return the stamps that show later whether a model's files changed; raises ``OSError``."""
    stamps = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file():
            status = path.stat()
            stamps.append((path.name, status.st_size, status.st_mtime_ns))
    return tuple(stamps)


def fingerprint_of(folder: Path, stamps: Stamps, kinds: tuple[str, ...], device: str) -> str | None:
    """Return the fingerprint of a loaded model; None if its files changed since it was loaded."""
    if stamps_of(folder) != stamps:
        return None
    covered = [FORMAT, version("mlx"), version("mlx-lm"), device, kinds, str(folder), stamps]
    return hashlib.sha256(repr(covered).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The metadata of a file.

    ``parent`` is the hash of the ``start`` tokens before the block, ``tokens`` the block's own as a
    key of the index, and ``layout`` that of ``layout_of``.
    """

    model: str
    owner: CacheOwner
    parent: str
    start: int
    tokens: bytes
    layout: Any
    is_snapshot: bool = False

    def to_metadata(self) -> dict[str, str]:
        fields = {
            "format": FORMAT,
            "model": self.model,
            "owner": self.owner.name,
            "kept_with": self.owner.kept_with,
            "parent": self.parent,
            "start": self.start,
            "tokens": base64.b64encode(self.tokens).decode(),
            "layout": self.layout,
            "is_snapshot": self.is_snapshot,
        }
        return {_KEY: json.dumps(fields)}

    @classmethod
    def from_metadata(cls, metadata: object) -> "FileHeader":
        """Read it from a file's metadata; raises ``DamagedFile``."""
        try:
            fields = json.loads(metadata[_KEY])  # type: ignore[index]
            if fields["format"] != FORMAT:
                raise DamagedFile("of another version")
            header = cls(
                model=str(fields["model"]),
                owner=CacheOwner(str(fields["owner"]), str(fields["kept_with"])),
                parent=str(fields["parent"]),
                start=int(fields["start"]),
                tokens=base64.b64decode(fields["tokens"], validate=True),
                layout=fields["layout"],
                is_snapshot=bool(fields["is_snapshot"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DamagedFile(str(error)) from error
        if not header.tokens or len(header.tokens) % TOKEN_BYTES:
            raise DamagedFile("its tokens are no token ids")
        return header


def tag(text: str) -> str:
    """Return a short digest of a text for names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class CacheFolder:
    """The files of prompt caches."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> dict[str, int]:
        """Return the bytes of each file, the least recently used first."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # another process may delete it now
                        status = entry.stat(follow_symlinks=False)
                        files.append((status.st_mtime_ns, entry.name, status.st_size))
        return {name: size_bytes for _, name, size_bytes in sorted(files)}

    def files_of_model(self, model: str) -> list[str]:
        return [name for name in self.files() if name.startswith(f"{tag(model)}-")]

    @property
    def size_bytes(self) -> int:
        return sum(self.files().values())

    @staticmethod
    def prefix(model: str, owner: CacheOwner) -> str:
        return f"{tag(model)}-{_owner_tag(owner)}"

    @contextlib.contextmanager
    def unfinished(self, size_bytes: int) -> Iterator[Path]:
        """Yield an empty file to be written and committed; otherwise it is deleted.

        Raises ``OSError``, also where the disk is nearly full.
        """
        make_folders(self.path)
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)
        if shutil.disk_usage(self.path).free < size_bytes + MIN_FREE_BYTES:
            raise OSError("the disk is nearly full")
        path = self.path / f"unfinished-{secrets.token_hex(8)}.safetensors"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def commit(self, path: Path, prefix: str) -> str:
        """Give a written file its name, under which it appears all at once; return the name."""
        name = f"{prefix}-{_digest(path)}.safetensors"
        os.rename(path, self.path / name)
        return name

    def metadata(self, name: str) -> dict[str, str]:
        """Return the metadata of a file alone; raises ``ModelLoadFailed`` or ``ValueError``."""
        metadata = read_header(self.path / name)[1].get("__metadata__")
        if not isinstance(metadata, dict):
            raise ValueError("there is no metadata")
        # mlx-lm puts the metadata of its caller before its own.
        return {key.removeprefix("0."): value for key, value in metadata.items()}

    def is_intact(self, name: str) -> bool:
        match = _NAME.fullmatch(name)
        return match is not None and _digest(self.path / name) == match[3]

    def touch(self, names: Iterable[str]) -> None:
        """Record the use of files, in this order; the last one is deleted last."""
        now = time.time_ns()
        for number, name in enumerate(names):
            with contextlib.suppress(OSError):
                os.utime(self.path / name, ns=(now + number, now + number))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; a missing file is no error. Raises ``OSError`` for any other."""
        failure: OSError | None = None
        for name in names:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def delete_owner(self, owner: CacheOwner) -> None:
        self.delete(name for name in self.files() if name[17:33] == _owner_tag(owner))

    def shrink_to(self, max_bytes: int) -> list[str]:
        files = self.files()
        size, deleted = sum(files.values()), []
        for name, size_bytes in files.items():
            if size <= max_bytes:
                break
            size -= size_bytes
            deleted.append(name)
        self.delete(deleted)
        return deleted

    def delete_abandoned(self) -> None:
        """Delete the unfinished files of processes that were killed."""
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if (
                        _UNFINISHED.fullmatch(entry.name)
                        # Older than any write takes: of a process that was killed.
                        and time.time() - entry.stat().st_mtime > 3600.0
                    ):
                        (self.path / entry.name).unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _owner_tag(owner: CacheOwner) -> str:
    return tag(f"{owner.name}\n{owner.kept_with}")


class DiskCache:
    """The prompt caches in one folder; a limit of 0 bytes stores nothing, and deletes all files.

    Attributes:
        epoch: Raised whenever caches are deleted on request: a cache of an answer that began before
            is not written afterwards.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.folder = CacheFolder(path)
        self.max_bytes = max_bytes
        # Reading does not wait for writing.
        self._writer = ThreadPoolExecutor(1, "fullstop-disk-writer")
        self._reader = ThreadPoolExecutor(1, "fullstop-disk-reader")
        self.epoch = 0
        self._is_failing = False
        self.run_on_writer("tidied", self._tidy)

    def run_on_writer(self, what: str, work: Callable[[], object]) -> "Future[None]":
        """Run work on the writer's thread; log an error once, until some work succeeds."""

        def run() -> None:
            try:
                work()
                self._is_failing = False
            except Exception as error:
                cause = os_cause(error) if isinstance(error, OSError) else repr(error)
                if not self._is_failing:
                    self._is_failing = True
                    folder = self.folder.path
                    _log.warning("prompt caches in %s are not %s: %s", folder, what, cause)

        return _submit(self._writer, run)

    def run_on_reader(self, work: Callable[[], T]) -> "Future[T]":
        return _submit(self._reader, work)

    def forget(self, owner: CacheOwner) -> "Future[None]":
        """Delete an owner's caches; running answers write no more of them."""
        self.epoch += 1
        return self.run_on_writer("deleted", lambda: self.folder.delete_owner(owner))

    def forget_all(self) -> "Future[None]":
        """Delete all caches; running answers write no more of them."""
        self.epoch += 1
        return self.run_on_writer("deleted", lambda: self.folder.shrink_to(0))

    def limit_to(self, max_bytes: int) -> None:
        if max_bytes != self.max_bytes:
            self.max_bytes = max_bytes
            self.run_on_writer("tidied", self._tidy)

    def measured(self) -> "Future[int]":
        """Return the bytes of all files, after all earlier work is done."""
        return _submit(self._writer, lambda: self.folder.size_bytes)

    def close(self, timeout_s: float = 10.0) -> None:
        """Finish writing and end the threads; waits at most ``timeout_s`` for each."""
        for executor in (self._writer, self._reader):
            last = _submit(executor, free_mlx_thread)
            executor.shutdown(wait=False)
            try:
                last.result(timeout_s)
            except TimeoutError:
                _log.warning("prompt caches were not stored: the disk takes too long")
            except Exception:
                continue

    def _tidy(self) -> None:
        self.folder.delete_abandoned()
        self.folder.shrink_to(self.max_bytes)


def _submit(executor: ThreadPoolExecutor, work: Callable[[], T]) -> "Future[T]":
    """Submit work; the future is cancelled if the executor is shut down."""
    try:
        return executor.submit(work)
    except RuntimeError:
        future: Future[T] = Future()
        future.cancel()
        return future
