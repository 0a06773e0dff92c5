"""The files of an export: a single file, a folder, or a ZIP archive. Blocks; any thread."""

import calendar
import contextlib
import errno
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.json_items import MAX_ITEM_BYTES
from engine.files.safe_files import open_regular
from engine.wording import counted

# More files than any export has, but few enough to list quickly.
_MAX_NAMES = 200_000
_PIECE_BYTES = 1 << 18
_TRACES, _TRACE_SUFFIX = "traces", ".trace"
_ZIP_SIGNATURE = b"PK\x03\x04"
# Python unpacks other methods without a limit: 100 KB of bzip2 may become gigabytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, EOFError, UnicodeDecodeError,
)  # fmt: skip


class ExportFiles:
    """Reads the files of an export as streams; raises ``OSError`` and ``DamagedFile``.

    ``max_bytes`` limits the text of all files together.
    """

    def __init__(self, path: Path, max_bytes: int = 0) -> None:
        self.path = path
        self.folder = path if path.is_dir() else path.parent
        self.archive: zipfile.ZipFile | None = None
        self.read_names: set[str] = set()
        self._left = self._max_bytes = max_bytes
        if path.is_file():
            with path.open("rb") as file:
                is_archive = file.read(len(_ZIP_SIGNATURE)) == _ZIP_SIGNATURE
            if is_archive:
                try:
                    self.archive = zipfile.ZipFile(path)
                except _DAMAGED_ARCHIVE as error:
                    raise DamagedFile("the archive is damaged") from error

    def __enter__(self) -> "ExportFiles":
        return self

    def __exit__(self, *_: object) -> None:
        if self.archive is not None:
            self.archive.close()

    @cached_property
    def names(self) -> list[str]:
        """The names of its files, relative to the folder."""
        names: list[str] = []
        if self.archive is not None:
            names = self.archive.namelist()
        elif not self.path.is_dir():
            names = [self.path.name]
        else:
            for root, folders, files in os.walk(self.path):
                folders.sort()
                folder = Path(root).relative_to(self.path)
                names += [(folder / name).as_posix() for name in sorted(files)]
                if len(names) > _MAX_NAMES:
                    break
        if len(names) > _MAX_NAMES:
            kind = "folder" if self.archive is None else "archive"
            raise DamagedFile(f"the {kind} has more than {counted(_MAX_NAMES, 'file')}")
        return names

    def text(self, name: str) -> Iterator[bytes]:
        """Yield a text in pieces, which count for the limit."""
        self.read_names.add(name)
        for piece in self.pieces(name):
            self._left -= len(piece)
            if self._left < 0:
                if self.archive is not None:
                    raise DamagedFile(f"it unpacks to more than {self._max_bytes / 1e6:.0f} MB")
                raise OSError(errno.EFBIG, f"it is larger than {self._max_bytes >> 20} MiB")
            yield piece

    def json(self, name: str) -> Any:
        """Return the value of a small JSON file; raises as ``text`` does."""
        return parsed_json(_joined(self.text(name), MAX_ITEM_BYTES))

    def pieces(self, name: str) -> Iterator[bytes]:
        if self.archive is None:
            with open_regular(self.folder / name) as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
            return
        try:
            if self.archive.getinfo(name).compress_type not in _METHODS:
                raise DamagedFile(
                    "the archive is packed in a way that is not read here; unpack it, and choose "
                    "its folder"
                )
            with self.archive.open(name) as member:
                while piece := member.read(_PIECE_BYTES):
                    yield piece
        except _DAMAGED_ARCHIVE as error:
            raise DamagedFile("the archive is damaged") from error
        except RuntimeError as error:
            raise DamagedFile("the archive has a password; unpack it first") from error

    def modified_at(self, name: str) -> float:
        """Return the Unix time of a file's last change, to two seconds; 0 if it is not known."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            if self.archive is None:
                return (self.folder / name).lstat().st_mtime
            return float(calendar.timegm((*self.archive.getinfo(name).date_time, 0, 0, 0)))
        return 0.0


def _joined(pieces: Iterable[bytes], max_bytes: int) -> bytes:
    kept = bytearray()
    for piece in pieces:
        kept += piece
        if len(kept) > max_bytes:
            raise DamagedFile(f"it is too large: it may have up to {max_bytes >> 20} MB")
    return bytes(kept)


def read_traces(
    path: Path, members: Mapping[str, str], run_ids: Collection[str]
) -> Generator[tuple[str, float, bytes | None], None, None]:
    """Yield run, Unix time and content of the traces of some runs, the oldest first.

    The content is None if it is damaged. Raises ``OSError`` and ``DamagedFile``.
    """
    if not any(run_id in run_ids for run_id in members):
        return
    with ExportFiles(path) as files:
        times = {name: files.modified_at(name) for name in members.values()}
        for run_id, name in sorted(members.items(), key=lambda item: times[item[1]]):
            if run_id in run_ids:
                content = None
                with contextlib.suppress(DamagedFile, KeyError, OSError):
                    content = _joined(files.pieces(name), 64 << 20)
                yield run_id, times[name], content


def traces_in(files: ExportFiles) -> dict[str, str]:
    """Return the names of the traces in our own archive, packed or unpacked, by their runs."""
    names = files.names
    if files.archive is None and not files.path.is_dir():
        # Some file managers unpack archives on their own; the traces are then beside the file.
        with contextlib.suppress(OSError):
            names = [f"{_TRACES}/{name}" for name in os.listdir(files.folder / _TRACES)]
    return {PurePosixPath(name).stem: name for name in names if is_trace(name)}


def is_trace(name: str) -> bool:
    """Return whether a file of an archive is a trace."""
    path = PurePosixPath(name)
    return path.suffix == _TRACE_SUFFIX and path.parent.name == _TRACES


def trace_member(run_id: str, written_at: float) -> zipfile.ZipInfo:
    """Return the archive entry for a trace; a trace is already compressed."""
    when = time.gmtime(max(written_at, 315_532_800.0))  # the ZIP format begins in 1980
    return zipfile.ZipInfo(f"{_TRACES}/{run_id}{_TRACE_SUFFIX}", when[:6])
