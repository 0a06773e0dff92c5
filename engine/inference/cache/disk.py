"""The folder of prompt caches on disk, and its two threads. Knows no MLX.

A file's name has the hash of all tokens up to the end of its content, and the digest of the file.
The folder is the only record of its content, so several processes may use it: a process that finds
a file deleted continues without it.

Caches that one model made are never used with another: a fingerprint covers the folders of the
model and of its adapter, the name, size and time of change of each file that a model, its tokenizer
and its template are read from, the versions of mlx and mlx-lm, and of mlx-vlm and transformers,
which make the features of pictures, the device, and the kinds of the cache's parts.

No disk error ends an answer: a cache that cannot be written is dropped, and the model reads a
prompt again whose cache cannot be read.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from engine.files.causes import os_cause
from engine.files.safe_files import make_folders
from engine.threads import free_mlx_thread
from engine.values.request import CacheOwner

# Caches never use the last free space of a disk.
MIN_FREE_BYTES = 512 << 20
# Raised whenever files of earlier versions can no longer be used; they are evicted first.
FORMAT = 6
_SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".tiktoken", ".txt")

Stamps = tuple[tuple[str, int, int], ...]
"""The names, sizes and times of change of a folder's files."""
_NAME = re.compile(
    r"[0-9a-f]{16}-([0-9a-f]{16})-([0-9a-f]{64}(?:-[0-9]+)?)(?:\.([0-9a-f]{64}))?\.safetensors"
)
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{16}\.(tmp|safetensors)")

_log = logging.getLogger(__name__)
T = TypeVar("T")


def stamps_of(folder: Path, base: Path | None = None) -> Stamps:
    """Return the stamps that show later whether a model's files changed; raises ``OSError``.

    Those of an adapter include its base's.
    """
    stamps = [] if base is None else [*stamps_of(base)]
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file():
            status = path.stat()
            stamps.append((path.name, status.st_size, status.st_mtime_ns))
    return tuple(stamps)


def fingerprint_of(
    folder: Path,
    stamps: Stamps,
    kinds: tuple[str, ...],
    device: str,
    *,
    can_see: bool = False,
    base: Path | None = None,
) -> str | None:
    """Return the fingerprint of a loaded model; None if its files changed since it was loaded."""
    if stamps_of(folder, base) != stamps:
        return None
    libraries = ("mlx", "mlx-lm", *(("mlx-vlm", "transformers") if can_see else ()))
    covered = [FORMAT, *map(version, libraries), device, kinds, str(folder), stamps]
    covered += [] if base is None else [str(base)]
    return hashlib.sha256(repr(covered).encode()).hexdigest()


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

    def files_of_model(self, model: str, owner: CacheOwner | None = None) -> dict[str, str]:
        """Return the names of a model's files by their keys (``cache.index.file_key``)."""
        begin = f"{tag(model)}-" + ("" if owner is None else f"{_owner_tag(owner)}-")
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self.path) if name.startswith(begin)]
            return {match[2]: name for name in names if (match := _NAME.fullmatch(name))}
        return {}

    @property
    def size_bytes(self) -> int:
        return sum(self.files().values())

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

    def commit(self, path: Path, model: str, owner: CacheOwner, key: str) -> str:
        """Give a written file its name, under which it appears all at once; return the name."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
        name = f"{tag(model)}-{_owner_tag(owner)}-{key}.{_digest(path)}.safetensors"
        os.rename(path, self.path / name)
        return name

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
        own = _owner_tag(owner)
        self.delete(name for name in self.files() if name.split("-")[1] == own)

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
