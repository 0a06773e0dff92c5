"""Our archive as a ZIP file: the conversations as JSON, and the traces of answers.

Reading is limited, and errors name the damage. Any thread; blocks while the disk works.
"""

import calendar
import struct
import time
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.files.fields import DamagedFile
from ui.records.exchange.archived_traces import (
    MOST_TRACE_BYTES,
    ArchivedTrace,
    trace_members,
    trace_name,
)

SUFFIX = ".zip"
CONVERSATIONS = "conversations.json"
_PIECE_BYTES = 1 << 18
# Python unpacks other methods without a limit: 100 KB of bzip2 may become gigabytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, EOFError, UnicodeDecodeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ZippedTraces:
    """The traces in an archive; each is read when it is needed."""

    path: Path
    members: Mapping[str, str]

    def read(self, run_ids: Collection[str]) -> Generator[ArchivedTrace, None, None]:
        """Yield the traces of some runs, as ``ArchivedTraces.read`` does."""
        wanted = [(one, name) for one, name in self.members.items() if one in run_ids]
        if not wanted:
            return
        try:
            archive = zipfile.ZipFile(self.path)
        except DAMAGED_ARCHIVE as error:
            raise DamagedFile("the archive is damaged") from error
        with archive:
            for run_id, name in wanted:
                content = None
                try:
                    when = _moment(archive.getinfo(name))
                    content = member_content(archive, name, MOST_TRACE_BYTES)
                except (DamagedFile, KeyError):
                    when = 0.0
                yield ArchivedTrace(run_id, when, content)


def traces_in(archive: zipfile.ZipFile, path: Path) -> ZippedTraces:
    """Return the traces of an archive, by their names alone."""
    return ZippedTraces(path, trace_members(archive.namelist()))


def trace_member(run_id: str, written_at: float) -> zipfile.ZipInfo:
    """Return the archive entry for a trace; a trace is already compressed."""
    # The range of years of the ZIP format.
    when = time.gmtime(min(max(written_at, 315_532_800.0), 4_354_819_198.0))
    return zipfile.ZipInfo(trace_name(run_id), when[:6])


def member_content(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Return a part of an archive; raises as ``member_pieces`` does, or if it is too large."""
    kept: list[bytes] = []
    size = 0
    for piece in member_pieces(archive, name, _PIECE_BYTES):
        size += len(piece)
        if size > most_bytes:
            raise DamagedFile(f"it unpacks to more than {most_bytes / 1e6:.0f} MB")
        kept.append(piece)
    return b"".join(kept)


def member_pieces(archive: zipfile.ZipFile, name: str, piece_bytes: int) -> Iterator[bytes]:
    """Yield a part of an archive, piece by piece."""
    try:
        if archive.getinfo(name).compress_type not in _METHODS:
            raise DamagedFile(
                "the archive is packed in a way that is not read here; unpack it, and choose "
                "its folder"
            )
        with archive.open(name) as file:
            while piece := file.read(piece_bytes):
                yield piece
    except DAMAGED_ARCHIVE as error:
        raise DamagedFile("the archive is damaged") from error
    except RuntimeError as error:
        raise DamagedFile("the archive has a password; unpack it first") from error


def _moment(info: zipfile.ZipInfo) -> float:
    try:
        return float(calendar.timegm((*info.date_time, 0, 0, 0)))
    except ValueError:
        return 0.0
