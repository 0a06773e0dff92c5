"""Finds conversations of any known program in a file, a ZIP archive or a folder.

All reading is limited: members of an archive are unpacked in memory, up to the limit.
Any thread; blocks while the disk works.
"""

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from engine import counted
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from engine.files.fields import DamagedFile, Fields, parsed_json
from engine.files.text_memory import text_memory
from ui.records.conversations import ConversationFolder
from ui.records.exchange.archive import OURS, archive_from
from ui.records.exchange.archived_traces import names_beside, trace_members, traces_beside
from ui.records.exchange.chatgpt import CHATGPT, read_chatgpt
from ui.records.exchange.claude import CLAUDE, read_claude
from ui.records.exchange.found import FoundConversations, origin_of
from ui.records.exchange.jan import JAN, MESSAGES, THREAD, read_jan
from ui.records.exchange.lm_studio import (
    LM_STUDIO,
    PRESET_SUFFIX,
    SUFFIX,
    read_lm_studio,
    read_preset,
)
from ui.records.exchange.zipped import DAMAGED_ARCHIVE, member_content, traces_in
from ui.records.placement import Placement

# More files than any export has, but few enough to list quickly.
_MOST_NAMES = 200_000
_OF_THE_SYSTEM = (".DS_Store", "Thumbs.db", "desktop.ini")
_LISTS = ("conversations.json", "conversations-")
_UNKNOWN = (
    "it holds no conversations of Fullstop, ChatGPT, Claude, LM Studio or Jan. Choose the file or "
    "folder that the other program exported"
)


def find_conversations(path: Path, most_bytes: int) -> FoundConversations:
    """Return the conversations of a file, an archive or a folder.

    Args:
        path: The file or folder.
        most_bytes: The most bytes of text to read; the values take many times as much memory.

    Raises:
        OSError: It cannot be read; ``EFBIG`` if a file is too large.
        DamagedFile: It contains no conversations, or none of them can be read.
    """
    if path.is_dir():
        folder = _Folder(path, most_bytes)
        return _with_traces(_read(folder), path, folder.names)
    with path.open("rb") if path.is_file() else contextlib.nullcontext() as file:
        is_archive = file is not None and file.read(4) == b"PK\x03\x04"
    if is_archive:
        try:
            with zipfile.ZipFile(path) as archive:
                found = _read(_Archive(archive, most_bytes))
                if found.program == OURS:
                    found.traces = traces_in(archive, path)
                return found
        except DAMAGED_ARCHIVE as error:
            raise DamagedFile("the archive is damaged") from error
    found = _read(_Alone(path, most_bytes))
    # Some file managers unpack archives on their own; the traces are then beside the file.
    return _with_traces(found, path.parent, names_beside(path))


def _with_traces(found: FoundConversations, folder: Path, names: list[str]) -> FoundConversations:
    """Add the traces among the files of a folder to the contents of our own archive."""
    if found.program == OURS:
        found.traces = traces_beside(folder, names)
    return found


class _Source:
    """A source of named texts: a file, a folder or an archive.

    Attributes:
        names: The paths of the texts, with slashes.
        read: Those that were read.
    """

    names: list[str]

    def __init__(self, most_bytes: int) -> None:
        self._left = self._most = most_bytes
        self.read: set[str] = set()

    def text(self, name: str) -> str:
        """Return a text.

        Raises:
            OSError: It cannot be read.
            DamagedFile: It is not text, or takes too much memory.
        """
        self.read.add(name)
        raw = self._content(name, self._left)
        self._left -= len(raw)
        if (why := text_memory(raw).excess(self._most)) is not None:
            raise DamagedFile(f"it takes too much memory: {why}")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DamagedFile("it is not text") from error

    def json(self, name: str) -> Any:
        """Return the value of a JSON file; raises as ``text`` does."""
        return parsed_json(self.text(name))

    def _content(self, name: str, most_bytes: int) -> bytes:
        raise NotImplementedError


class _Alone(_Source):
    def __init__(self, path: Path, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self._path = path
        self.names = [path.name]

    def _content(self, name: str, most_bytes: int) -> bytes:
        return read_bounded(self._path, most_bytes)


class _Folder(_Source):
    def __init__(self, folder: Path, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self._folder = folder
        self.names = []
        for root, folders, files in os.walk(folder):
            folders.sort()
            place = Path(root).relative_to(folder)
            self.names += [(place / name).as_posix() for name in sorted(files)]
            if len(self.names) > _MOST_NAMES:
                raise DamagedFile(f"the folder has more than {counted(_MOST_NAMES, 'file')}")

    def _content(self, name: str, most_bytes: int) -> bytes:
        return read_bounded(self._folder / name, most_bytes)


class _Archive(_Source):
    def __init__(self, archive: zipfile.ZipFile, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self._archive = archive
        self.names = archive.namelist()
        if len(self.names) > _MOST_NAMES:
            raise DamagedFile(f"the archive has more than {counted(_MOST_NAMES, 'file')}")

    def _content(self, name: str, most_bytes: int) -> bytes:
        return member_content(self._archive, name, most_bytes)


def _read(source: _Source) -> FoundConversations:
    names = source.names
    found = _read_known(source, names)
    found.unread += [
        name
        for name in names
        if name not in source.read
        and not name.endswith("/")
        and not trace_members([name])
        and PurePosixPath(name).name not in _OF_THE_SYSTEM
        and "__MACOSX" not in PurePosixPath(name).parts
    ]
    return found


def _read_known(source: _Source, names: list[str]) -> FoundConversations:
    if threads := [name for name in names if PurePosixPath(name).name == THREAD]:
        return _threads(source, threads)
    if kept := [name for name in names if name.endswith((SUFFIX, PRESET_SUFFIX))]:
        return _kept_by_lm_studio(source, kept)
    if len(names) == 1 and (isinstance(source, _Alone) or names[0].endswith(".json")):
        return _one_file(source, names[0])
    lists = [one for one in names if _is_list(PurePosixPath(one).name)]
    if not lists:
        raise DamagedFile(_UNKNOWN)
    found: FoundConversations | None = None
    for name in sorted(lists):
        more = _one_file(source, name)
        if found is None:
            found = more
        else:
            found.conversations += more.conversations
            found.damaged += more.damaged
            found.left_out += more.left_out
    assert found is not None
    return found


def _is_list(name: str) -> bool:
    return name.startswith(_LISTS) and name.endswith(".json")


def _one_file(source: _Source, name: str) -> FoundConversations:
    values = source.json(name)
    if isinstance(values, dict) and "fullstop_conversations" in values:
        return archive_from(values)
    listed = values if isinstance(values, list) else [values]
    shapes: tuple[tuple[str, str, Callable[[Fields, FoundConversations], None]], ...] = (
        ("mapping", CHATGPT, read_chatgpt),
        ("chat_messages", CLAUDE, read_claude),
    )
    for field, program, read in shapes:
        if any(isinstance(one, dict) and field in one for one in listed):
            found = FoundConversations(program)
            for number, one in enumerate(listed):
                _attempt(found, f"conversations[{number}]", one, read)
            return found
    if isinstance(values, dict) and _is_lm_studio(values):
        found = FoundConversations(LM_STUDIO)
        read_lm_studio(Fields(values), name, found)
        return found
    if isinstance(values, dict) and not name.startswith(_LISTS):
        raise DamagedFile("fullstop_conversations: is missing; " + _UNKNOWN)
    raise DamagedFile(_UNKNOWN)


def _is_lm_studio(values: dict[str, Any]) -> bool:
    messages = values.get("messages")
    return isinstance(messages, list) and any(
        isinstance(one, dict) and "versions" in one for one in messages
    )


def _attempt(
    found: FoundConversations,
    where: str,
    values: Any,
    read: Callable[[Fields, FoundConversations], None],
) -> None:
    try:
        read(Fields(values, where), found)
    except DamagedFile as error:
        found.note_damage(str(error))


def _kept_by_lm_studio(source: _Source, names: list[str]) -> FoundConversations:
    found = FoundConversations(LM_STUDIO)
    folders: dict[str, ConversationFolder] = {}
    names = sorted(names, key=lambda name: name.endswith(PRESET_SUFFIX))
    places = [PurePosixPath(name).parts for name in names if name.endswith(SUFFIX)]
    tops = {parts[0] for parts in places}
    # In an archive of the folder, everything is inside the folder itself.
    skipped = 1 if len(tops) == 1 and all(len(one) > 1 for one in places) else 0
    for name, values in _each(source, names, found):
        before = len(found.conversations)
        try:
            read = read_preset if name.endswith(PRESET_SUFFIX) else read_lm_studio
            read(Fields(values), name, found)
        except DamagedFile as error:
            found.note_damage(f"{name}: {error}")
        inside = "/".join(PurePosixPath(name).parts[skipped:-1])
        if inside and len(found.conversations) > before:
            folder = folders.get(inside)
            if folder is None:
                # The id is the same each time: a second import finds the folder of the first.
                identity = origin_of(LM_STUDIO, inside)
                folder = folders[inside] = ConversationFolder(inside, id=identity)
            found.conversations[-1].placement = Placement(folder.id)
    found.folders = list(folders.values())
    return found


def _threads(source: _Source, names: list[str]) -> FoundConversations:
    found = FoundConversations(JAN)
    every = set(source.names)
    for name, values in _each(source, names, found):
        place = PurePosixPath(name).parent
        beside = (place / MESSAGES).as_posix()
        if beside not in every:
            found.left_out["empty conversation"] += 1
            continue
        try:
            lines = source.text(beside)
            read_jan(Fields(values, name), lines, place.name, found)
        except DamagedFile as error:
            found.note_damage(f"{beside}: {error}")
        except OSError as error:
            found.note_damage(f"{beside}: {os_cause(error)}")
    return found


def _each(
    source: _Source, names: list[str], found: FoundConversations
) -> Iterator[tuple[str, Any]]:
    """Yield the values of the files that can be read; the others are listed as damaged."""
    for name in names:
        try:
            yield name, source.json(name)
        except DamagedFile as error:
            found.note_damage(f"{name}: {error}")
        except OSError as error:
            found.note_damage(f"{name}: {os_cause(error)}")
