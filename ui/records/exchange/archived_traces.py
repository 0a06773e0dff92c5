"""The recorded tokens of answers in our archive, packed as a ZIP file or unpacked to a folder.

Reading is limited, and errors name the damage. Any thread; blocks while the disk works.
"""

import errno
import os
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from engine.files.bounded import read_bounded

MOST_TRACE_BYTES = 64 << 20
_FOLDER, _SUFFIX = "traces", ".trace"
# Errors of a single file; errors of the disk or of this program end the reading.
_DAMAGE = (errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ENOENT, errno.EIO)


class ArchivedTrace(NamedTuple):
    """A trace in an archive.

    Attributes:
        run_id: The run's id.
        written_at: Unix time at which it was kept, to two seconds.
        content: The trace; None if that part of the archive is damaged.
    """

    run_id: str
    written_at: float
    content: bytes | None


class ArchivedTraces(Protocol):
    """The traces in an archive; each is read when it is needed."""

    @property
    def members(self) -> Mapping[str, str]:
        """The names of its parts, by the ids of runs, the oldest trace first."""

    def read(self, run_ids: Collection[str]) -> Generator[ArchivedTrace, None, None]:
        """Yield the traces of some runs.

        Raises:
            OSError: The archive can no longer be read.
            DamagedFile: The file is no longer an archive.
        """


@dataclass(frozen=True, slots=True)
class UnpackedTraces:
    """The traces in a folder that an archive was unpacked to; without arguments, none."""

    folder: Path = Path()
    members: Mapping[str, str] = field(default_factory=dict)

    def read(self, run_ids: Collection[str]) -> Generator[ArchivedTrace, None, None]:
        """Yield the traces of some runs, as ``ArchivedTraces.read`` does."""
        for run_id, name in self.members.items():
            if run_id not in run_ids:
                continue
            path = self.folder / name
            content, written_at = None, _written_at(path)
            try:
                content = read_bounded(path, MOST_TRACE_BYTES)
            except OSError as error:
                if error.errno not in _DAMAGE:
                    raise
            yield ArchivedTrace(run_id, written_at, content)


def traces_beside(folder: Path, names: Iterable[str]) -> UnpackedTraces:
    """Return the traces among the files of a folder."""
    members = trace_members(names)
    by_age = sorted(members, key=lambda run_id: _written_at(folder / members[run_id]))
    return UnpackedTraces(folder, {run_id: members[run_id] for run_id in by_age})


def trace_members(names: Iterable[str]) -> dict[str, str]:
    """Return the names of an archive's traces, by the ids of their runs."""
    return {
        place.stem: name
        for name in names
        if (place := PurePosixPath(name)).suffix == _SUFFIX and place.parent.name == _FOLDER
    }


def trace_name(run_id: str) -> str:
    """Return the name that the trace of a run has in an archive."""
    return f"{_FOLDER}/{run_id}{_SUFFIX}"


def names_beside(path: Path) -> list[str]:
    """Return the names of the traces beside a file, relative to its folder."""
    try:
        return [f"{_FOLDER}/{name}" for name in os.listdir(path.parent / _FOLDER)]
    except OSError:
        return []


def _written_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
