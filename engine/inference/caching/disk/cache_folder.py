"""The folder of caches on disk: its files, their names, their sizes, their deletion. Knows no MLX.

The folder itself is the only record of what is in it, so several processes may use it at the same
time: a process that finds a file deleted continues without it. Any thread; blocks while the disk
works.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.values.request import CacheOwner

_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{64})\.safetensors")
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{16}\.tmp")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
# Caches never use the last free space of a disk.
LEFT_FREE_BYTES = 512 << 20
_MOST_HEADER = 256 << 20
_LENGTH_BYTES = 8
_FRESH_S = 5.0


class DiskNearlyFull(OSError):
    """There is too little room on the disk for a cache."""


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
        found = []
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # another process may delete it now
                        seen = entry.stat(follow_symlinks=False)
                        found.append(KeptFile(entry.name, seen.st_size, seen.st_mtime_ns))
        return sorted(found, key=lambda one: one.used_at_ns)

    def files_of_model(self, model: str) -> list[KeptFile]:
        """Return the files of the model with this fingerprint."""
        return [one for one in self.files() if one.name.startswith(f"{tag(model)}-")]

    @property
    def size_bytes(self) -> int:
        """The bytes of all kept files."""
        return sum(one.size_bytes for one in self.files())

    @staticmethod
    def prefix(model: str, owner: CacheOwner) -> str:
        """Return the beginning of the names of an owner's files for a model."""
        return f"{tag(model)}-{_owner_tag(owner)}"

    @contextlib.contextmanager
    def unfinished(self, size_bytes: int) -> Iterator[UnfinishedFile]:
        """Yield a file to be written."""
        # One by one: ``mkdir`` applies the mode to the last folder only, not to its parents.
        for missing in [one for one in (self.path, *self.path.parents) if not one.exists()][::-1]:
            missing.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(_FOLDER_MODE)
        if shutil.disk_usage(self.path).free < size_bytes + LEFT_FREE_BYTES:
            raise DiskNearlyFull("the disk is nearly full")
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
        found = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(found, dict):
            raise ValueError("there is no metadata")
        # mlx-lm puts the metadata of its caller before its own.
        return {key.removeprefix("0."): value for key, value in found.items()}

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
        names = [one.name for one in self.files() if one.name[17:33] == _owner_tag(owner)]
        self.delete(names)
        return names

    def shrink_to(self, most_bytes: int) -> list[str]:
        """Delete the least recently used files until the rest fits; return their names."""
        files = self.files()
        size = sum(one.size_bytes for one in files)
        gone = []
        for one in files:
            if size <= most_bytes:
                break
            size -= one.size_bytes
            gone.append(one.name)
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
    found = _NAME.fullmatch(name)
    return found[3] if found else ""


def _delete_abandoned(path: Path) -> None:
    """Delete an unfinished file, unless its writer still holds the lock on it."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime < _FRESH_S:
            return  # its writer may be about to lock it
        file: BinaryIO
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
