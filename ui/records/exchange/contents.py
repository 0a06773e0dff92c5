"""What a file of conversations from any program contains: conversations, pictures, traces.

Errors name the damage. Any thread; blocks while the disk works.
"""

import base64
import binascii
import calendar
import contextlib
import errno
import hashlib
import os
import re
import struct
import tempfile
import time
import zipfile
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, TypeVar

from engine import counted
from engine.files.json_fields import DamagedFile, Fields
from engine.files.safe_files import read_bounded
from ui.records.attachments import picture_kind
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder, title_from_file

# Recorded tokens of answers, in our archive as a ZIP file or unpacked to a folder.

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
        wanted = [(run_id, name) for run_id, name in self.members.items() if run_id in run_ids]
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


# Pictures: found by their ids, checked, and copied one at a time. A copy is named by its content,
# so that a picture of many messages is kept once, and no name of an export becomes a path.

MOST_PICTURE_BYTES = 10 << 20
# Of one import; what is too large counts as far as it was read.
MOST_PICTURES_BYTES = 200 << 20
_PIECE_CHARS = 1 << 18  # a multiple of 4, as base64 needs it
_LONGEST_SIGNATURE = 12
# Ids of real exports are longer; a short one would be the beginning of too many names.
_LEAST_ID_CHARS = 8
_DATA = re.compile(r"data:image/[\w.+-]+;base64,")


class ArchivedPictures:
    """The pictures of an export."""

    def __init__(
        self,
        names: Iterable[str] = (),
        pieces: Callable[[str], Iterator[bytes]] = lambda name: iter(()),
        folder: Path | None = None,
        *,
        is_dry: bool = True,
    ) -> None:
        self.is_wanted = True
        self.read: set[str] = set()
        self._folder = folder
        self._is_dry = is_dry
        self._pieces = pieces
        self._left = MOST_PICTURES_BYTES
        # What became of each file: a picture may be in many messages.
        self._kept: dict[str, str] = {}
        wanted = names if folder is not None else ()
        self._names = sorted((PurePosixPath(name).name, name) for name in wanted)

    def file_of(self, identity: str) -> str:
        """Return the name of the copy of a picture that is a file of the export."""
        name = self._name_of(PurePosixPath(identity).name)
        if name is None or not self.is_wanted:
            return ""
        if name not in self._kept:
            self._kept[name] = self._copy(self._pieces(name))
        if kept := self._kept[name]:
            self.read.add(name)
        return kept

    def file_from(self, address: str) -> str:
        """Return the name of the copy of a picture that is in a ``data:`` address, as above."""
        match = _DATA.match(address)
        if match is None or self._folder is None or not self.is_wanted:
            return ""
        return self._copy(_decoded(address, match.end()))

    def is_here(self, name: str) -> bool:
        """Return whether a copy of this name is in the folder already."""
        return self._folder is not None and (self._folder / name).is_file()

    def _name_of(self, identity: str) -> str | None:
        at = bisect_left(self._names, (identity, ""))
        for base, name in self._names[at : at + 1]:
            rest = base.removeprefix(identity)
            is_id = len(identity) >= _LEAST_ID_CHARS and rest[:1] in ("-", ".", "_")
            if identity and base.startswith(identity) and (not rest or is_id):
                return name
        return None

    def _copy(self, pieces: Iterator[bytes]) -> str:
        """Keep a file; return its name, or nothing if it is of no kind, too large or damaged."""
        assert self._folder is not None
        with contextlib.suppress(OSError, DamagedFile, binascii.Error, ValueError):
            if self._is_dry:
                return self._checked(pieces, lambda piece: None)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            number, path = tempfile.mkstemp(prefix=".", dir=self._folder)
            try:
                with os.fdopen(number, "wb") as file:
                    name = self._checked(pieces, file.write)
                if name:
                    os.replace(path, self._folder / name)
                return name
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return ""

    def _checked(self, pieces: Iterator[bytes], write: Callable[[bytes], object]) -> str:
        """Write a file; return the name for it, or nothing if it cannot be kept."""
        digest, size, kind = hashlib.sha256(), 0, ""
        for piece in _from_signature(pieces):
            kind = kind or picture_kind(piece)
            size += len(piece)
            self._left -= len(piece)
            if not kind or size > MOST_PICTURE_BYTES or self._left < 0:
                return ""
            digest.update(piece)
            write(piece)
        return f"{digest.hexdigest()[:32]}.{kind}" if kind else ""


def _from_signature(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file, the first of them long enough to tell its kind."""
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= _LONGEST_SIGNATURE:
            break
    yield first
    yield from pieces


def _decoded(address: str, begin: int) -> Iterator[bytes]:
    for at in range(begin, len(address), _PIECE_CHARS):
        yield base64.b64decode(address[at : at + _PIECE_CHARS], validate=True)


_T = TypeVar("_T")
_MOST_NAMED = 5
# A file may have a million damaged parts, or names as long as a page.
_MOST_DAMAGED, _MOST_DAMAGE_CHARS, _MOST_NAME_CHARS = 1_000, 300, 60


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A conversation in a file, for a person who chooses among them.

    Attributes:
        number: Its number in the file.
        title: Its title.
        messages: How many messages it has.
        updated_at: Unix time of its last message, in seconds.
        origin: What it comes from, so that it is not imported twice.
        folder_id: Its folder; empty for none.
    """

    number: int
    title: str
    messages: int
    updated_at: float
    origin: str
    folder_id: str


@dataclass(slots=True)
class FileContents:
    """The conversations and other data that were found in a file or a folder.

    Attributes:
        program: The program that wrote it.
        conversations: The conversations, if they were read.
        listed: The conversations that can be read.
        folders: The folders that they are in.
        presets: The presets.
        pictures: Keeps the pictures of messages, if there is a place for them.
        traces: The recorded tokens of answers; only our own archives have some.
        damaged: The parts that cannot be read: the place of each, and what is wrong with it.
        left_out: How many things of each kind have no place here; a kind is a noun: "picture".
        unread: The names of the files that hold no conversations.
    """

    program: str
    conversations: list[Conversation] = field(default_factory=list)
    listed: list[ListedConversation] = field(default_factory=list)
    folders: list[ConversationFolder] = field(default_factory=list)
    presets: list[Preset] = field(default_factory=list)
    traces: ArchivedTraces = field(default_factory=UnpackedTraces)
    pictures: ArchivedPictures = field(default_factory=ArchivedPictures)
    damaged: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)

    def note_damage(self, words: str) -> None:
        """Note a part that cannot be read; beyond a limit, such parts are only counted."""
        if len(self.damaged) < _MOST_DAMAGED:
            self.damaged.append(words[:_MOST_DAMAGE_CHARS])
        else:
            self.left_out["more damaged part"] += 1

    def note_unknown(self) -> None:
        """Count a part of a kind that is not known here."""
        self.left_out["unknown part"] += 1

    @property
    def left_out_words(self) -> str:
        """What has no place here, as one sentence: "Left out: 2 pictures…"; empty for nothing."""
        parts = [counted(count, kind) for kind, count in sorted(self.left_out.items()) if count]
        if self.unread:
            shown = (title_from_file(name)[:_MOST_NAME_CHARS] for name in self.unread[:_MOST_NAMED])
            named = ", ".join(shown)
            more = "…" if len(self.unread) > _MOST_NAMED else ""
            parts.append(f"{counted(len(self.unread), 'other file')} ({named}{more})")
        return f"Left out: {', '.join(parts)}." if parts else ""

    @property
    def damage_words(self) -> str:
        """The parts that cannot be read, as one sentence; empty for none."""
        if not self.damaged:
            return ""
        named = "; ".join(self.damaged[:_MOST_NAMED])
        more = len(self.damaged) - _MOST_NAMED
        tail = f"; and {counted(more, 'more part')}" if more > 0 else ""
        return f"Could not be read: {named}{tail}."

    def read_each(
        self, parts: Iterable[Fields], read: Callable[[Fields], _T], into: list[_T]
    ) -> None:
        """Read parts one by one; a damaged one is noted, and the others are read.

        Args:
            parts: The parts.
            read: Reads one part.
            into: The list that the results are added to.
        """
        for part in parts:
            try:
                into.append(read(part))
            except DamagedFile as error:
                self.note_damage(str(error))


def origin_of(program: str, name: str) -> str:
    """Return the id of a conversation's origin: another program, or another computer."""
    return f"{program.casefold().replace(' ', '-')}:{name}"
