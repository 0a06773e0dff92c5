"""The process that reads exports: a hostile file may take its memory, or end it.

Started as ``python -m ui.records.exchange.export_process`` by ``engine.helper_process``. Its
questions:

    {"path": …, "max_bytes": n, "pictures": folder or null}
        → {"program": …, "listed": [[title, messages, updated_at, origin, folder_id], …],
           "folders": […], "presets": […], "facts": […], "damaged": [words],
           "left_out": {kind: count}, "unread": [names], "traces": {run: name}}
    the same with "numbers": [n, …], then {} for each further answer
        → {"conversation": …}               as in our own archive
        → {"left_out": {kind: count}}       of these conversations; there are no more
    → {"refused": words} or {"errno": n, "cause": words} instead of each

Everything is read as a stream: one conversation at a time, each with a limit.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile, Fields
from engine.files.json_items import MAX_ITEM_BYTES, JsonItem, json_items
from engine.helper_process import serve
from ui.records.codec import folder_values, preset_values
from ui.records.conversations import Conversation, Placement
from ui.records.document_process import MAX_MEMORY_BYTES
from ui.records.exchange.archive import LISTS, OURS, conversation_values, read_archive_item
from ui.records.exchange.chatgpt import CHATGPT, read_chatgpt
from ui.records.exchange.claude import CLAUDE, read_claude, read_project
from ui.records.exchange.contents import FileContents
from ui.records.exchange.export_files import ExportFiles, is_trace, traces_in
from ui.records.exchange.jan import JAN, MESSAGES, THREAD, read_jan
from ui.records.exchange.lm_studio import (
    LM_STUDIO,
    PRESET_SUFFIX,
    SUFFIX,
    read_lm_studio,
    read_preset,
)
from ui.records.exchange.open_webui import OPEN_WEBUI, read_open_webui
from ui.records.exchange.other_programs import add_folder
from ui.records.exchange.pictures import ArchivedPictures
from ui.records.facts import fact_values

_OF_THE_SYSTEM = (".DS_Store", "Thumbs.db", "desktop.ini")
_LISTS = ("conversations.json", "conversations-")
# LM Studio's folders.
_CHATS, _SENT = "conversations", "user-files"
_UNKNOWN = (
    "it holds no conversations of Fullstop, ChatGPT, Claude, LM Studio, Jan or Open WebUI. Choose "
    "the file or folder that the other program exported"
)
_Reader = Callable[[Fields, FileContents], None]
# A field that identifies the program, its name, and the reader of its conversations.
_SHAPES: tuple[tuple[str, str, _Reader], ...] = (
    ("mapping", CHATGPT, read_chatgpt),
    ("chat_messages", CLAUDE, read_claude),
    ("chat", OPEN_WEBUI, read_open_webui),
)
# Claude's projects: a list in one file, or a folder with a file for each.
_PROJECTS = "projects"


class ExportReading:
    """Reads the conversations of a file, an archive or a folder, one after the other."""

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        pictures: Path | None = None,
        numbers: frozenset[int] | None = None,
    ) -> None:
        self.contents = FileContents("")
        self._numbers = numbers
        self._files = files = ExportFiles(path, max_bytes)
        beside = [] if pictures is None or files.archive is not None else _files_beside(path)
        self.contents.pictures = ArchivedPictures(files, beside, pictures, is_dry=numbers is None)

    def __enter__(self) -> "ExportReading":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.__exit__()

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations; damaged and too large ones are noted instead."""
        contents = self.contents
        count = 0
        self._want_pictures_of(count)
        for _ in self._steps():
            read, contents.conversations = contents.conversations, []
            yield from read
            count += len(read)
            self._want_pictures_of(count)
        if not contents.program:
            raise DamagedFile(_UNKNOWN)
        if contents.program == OURS:
            contents.traces = traces_in(self._files)
        contents.unread += [name for name in self._files.names if self._is_unread(name)]

    def _want_pictures_of(self, number: int) -> None:
        """Keep the pictures of the conversation that is read next only if it was chosen."""
        self.contents.pictures.is_chosen = self._numbers is None or number in self._numbers

    def _is_unread(self, name: str) -> bool:
        parts = PurePosixPath(name).parts
        return not (
            name in self._files.read_names
            or name in self.contents.pictures.read
            or name.endswith("/")
            or is_trace(name)
            or parts[-1] in _OF_THE_SYSTEM
            or "__MACOSX" in parts
        )

    def _steps(self) -> Iterator[None]:
        """Read into ``found``; yield after each part."""
        files, names = self._files, self._files.names
        if threads := [name for name in names if PurePosixPath(name).name == THREAD]:
            yield from _threads(files, threads, self.contents)
        elif kept := [name for name in names if name.endswith((SUFFIX, PRESET_SUFFIX))]:
            yield from _kept_by_lm_studio(files, kept, self.contents)
        elif len(names) == 1 and (
            (not files.path.is_dir() and files.archive is None) or names[0].endswith(".json")
        ):
            yield from _one_file(files, names[0], self.contents)
        else:
            lists = sorted(name for name in names if _is_list(PurePosixPath(name).name))
            for name in names if lists else ():
                if _is_of_projects(PurePosixPath(name)):
                    _take_projects(files, name, self.contents)
            for name in lists:
                yield from _one_file(files, name, self.contents)


def _files_beside(path: Path) -> list[str]:
    """Return the paths of files beside the chosen ones, which may be their pictures.

    They lie beside a list of conversations and in folders there, or in LM Studio's folder of sent
    files, beside its folder of conversations. Links are not followed.
    """
    folders: list[Path] = []
    if _is_list(path.name) and path.is_file():
        folders = [path.parent, *(entry for entry in _entries(path.parent) if entry.is_dir())]
    if path.is_dir() or path.name.endswith(SUFFIX):
        above = [folder for folder in (path, *path.parents) if folder.name == _CHATS]
        sent = [folder.with_name(_SENT) for folder in above[:1]]
        folders += [folder for folder in sent if not folder.is_symlink()]
    files = (entry for folder in folders for entry in _entries(folder) if entry.is_file())
    return [str(file.absolute()) for file in files]


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder, apart from links."""
    with contextlib.suppress(OSError):
        yield from (entry for entry in folder.iterdir() if not entry.is_symlink())


def _is_list(name: str) -> bool:
    return name.startswith(_LISTS) and name.endswith(".json")


def _one_file(files: ExportFiles, name: str, contents: FileContents) -> Iterator[None]:
    """Read a file that is a list of conversations, our archive, or one conversation."""
    fields: dict[str, Any] = {}
    is_ours, count, unknown = False, 0, 0
    try:
        for item in json_items(files.text(name), LISTS):
            count += 1
            if item.number is not None and not item.name:
                unknown += not _take_listed(item, contents)
            elif item.name == "fullstop_conversations" or is_ours:
                is_ours = True
                read_archive_item(item, contents)
            else:
                fields[item.path] = item.value
            yield
    except DamagedFile as error:
        if not contents.program:
            raise
        contents.note_damage(f"{name}: {error}; nothing behind that was read")
    if fields:
        _take_fields(fields, name, contents)
        yield
    if unknown and contents.program:
        contents.left_out["unknown part"] += unknown


def _is_of_projects(path: PurePosixPath) -> bool:
    return path.suffix == ".json" and _PROJECTS in (path.stem, path.parent.name)


def _take_projects(files: ExportFiles, name: str, contents: FileContents) -> None:
    """Read Claude's projects: a list of them, or one."""
    fields: dict[str, Any] = {}
    with _noting_damage(contents, name):
        for item in json_items(files.text(name), ()):
            if item.number is None:
                fields[item.path] = item.value
            elif not item.name:
                _attempt(contents, f"{name}{item.path}", item.value, read_project)
        if fields:
            _attempt(contents, name, fields, read_project)


def _take_listed(item: JsonItem, contents: FileContents) -> bool:
    """Read an item of a list of conversations; return whether it could be one."""
    where = f"conversations{item.path}"
    value = item.value
    for field, program, read in _SHAPES:
        if isinstance(value, dict) and field in value:
            contents.program = contents.program or program
            _attempt(contents, where, value, read)
            return True
    return False


def _take_fields(values: dict[str, Any], name: str, contents: FileContents) -> None:
    """Read a file that is an object: one conversation."""
    for field, program, read in _SHAPES:
        if field in values:
            contents.program = program
            _attempt(contents, "conversations[0]", values, read)
            return
    if _is_lm_studio(values):
        contents.program = LM_STUDIO
        read_lm_studio(values, name, contents)
    elif not name.startswith(_LISTS):
        raise DamagedFile("fullstop_conversations: is missing; " + _UNKNOWN)


def _is_lm_studio(values: dict[str, Any]) -> bool:
    messages = values.get("messages")
    return isinstance(messages, list) and any(
        isinstance(message, dict) and "versions" in message for message in messages
    )


def _attempt(contents: FileContents, where: str, values: Any, read: _Reader) -> None:
    try:
        read(Fields(values, where), contents)
    except DamagedFile as error:
        contents.note_damage(str(error))


def _kept_by_lm_studio(
    files: ExportFiles, names: list[str], contents: FileContents
) -> Iterator[None]:
    contents.program = LM_STUDIO
    names = sorted(names, key=lambda name: name.endswith(PRESET_SUFFIX))
    paths = [PurePosixPath(name).parts for name in names if name.endswith(SUFFIX)]
    tops = {parts[0] for parts in paths}
    # In an archive of the folder, everything is inside the folder itself.
    skipped = 1 if len(tops) == 1 and all(len(path) > 1 for path in paths) else 0
    for name, values in _each(files, names, contents):
        with _noting_damage(contents, name):
            if name.endswith(PRESET_SUFFIX):
                read_preset(Fields(values), name, contents)
            else:
                read_lm_studio(values, name, contents)
        inside = "/".join(PurePosixPath(name).parts[skipped:-1])
        if inside and contents.conversations:
            folder_id = add_folder(LM_STUDIO, inside, inside, contents)
            contents.conversations[-1].placement = Placement(folder_id)
        yield


def _threads(files: ExportFiles, names: list[str], contents: FileContents) -> Iterator[None]:
    contents.program = JAN
    every = set(files.names)
    for name, values in _each(files, names, contents):
        path = PurePosixPath(name).parent
        beside = (path / MESSAGES).as_posix()
        if beside not in every:
            contents.left_out["empty conversation"] += 1
            continue
        with _noting_damage(contents, beside):
            read_jan(values, _lines(files.text(beside)), path.name, contents)
        yield


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text: only a line feed ends one, JSON may have other separators."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > MAX_ITEM_BYTES:
            raise DamagedFile(f"a message is larger than {MAX_ITEM_BYTES >> 20} MB")
    yield rest


def _each(
    files: ExportFiles, names: list[str], contents: FileContents
) -> Iterator[tuple[str, Any]]:
    """Yield the values of the files that can be read; the others are listed as damaged."""
    for name in names:
        with _noting_damage(contents, name):
            yield name, files.json(name)


@contextlib.contextmanager
def _noting_damage(contents: FileContents, name: str) -> Iterator[None]:
    """Note a file that cannot be read, so that the others are read."""
    try:
        yield
    except DamagedFile as error:
        contents.note_damage(f"{name}: {error}")
    except OSError as error:
        contents.note_damage(f"{name}: {os_cause(error)}")


def main() -> None:
    """Answer questions until the program ends."""
    answers: Iterator[dict[str, Any]] = iter(())

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal answers
        if "path" in request:
            answers = _answers(request)
        return next(answers)

    serve(answer, MAX_MEMORY_BYTES)


def _answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the answers to a question; the last one has the reason if reading failed."""
    numbers = frozenset(request["numbers"]) if "numbers" in request else None
    pictures = None if request["pictures"] is None else Path(request["pictures"])
    try:
        with ExportReading(
            Path(request["path"]), request["max_bytes"], pictures, numbers
        ) as reading:
            if numbers is None:
                yield _contents(reading)
            else:
                yield from _chosen(reading, numbers)
    except OSError as error:
        yield {"errno": error.errno, "cause": os_cause(error)}
    except DamagedFile as error:
        yield {"refused": str(error)}
    except MemoryError:
        yield {"refused": "it takes too much memory to read. Export fewer conversations at once"}


def _contents(reading: ExportReading) -> dict[str, Any]:
    listed = [
        (
            conversation.title,
            len(conversation.tree),
            conversation.updated_at,
            conversation.origin,
            conversation.placement.folder_id,
        )
        for conversation in reading.conversations()
    ]
    contents = reading.contents
    return {
        "program": contents.program,
        "listed": listed,
        "folders": [folder_values(folder) for folder in contents.folders],
        "presets": [preset_values(preset) for preset in contents.presets],
        "facts": [fact_values(fact) for fact in contents.facts],
        "damaged": contents.damaged,
        "left_out": contents.left_out,
        "unread": contents.unread,
        "traces": contents.traces,
    }


def _chosen(reading: ExportReading, numbers: frozenset[int]) -> Iterator[dict[str, Any]]:
    """Yield the chosen conversations, then the counts of parts left out of them."""
    left_out: Counter[str] = Counter()
    contents: FileContents = reading.contents
    for number, conversation in enumerate(reading.conversations()):
        # Counts since the last one belong to this one.
        counted, contents.left_out = contents.left_out, Counter()
        if number not in numbers:
            continue
        left_out += counted
        yield {"conversation": _values(conversation)}
    yield {"left_out": left_out}


def _values(conversation: Conversation) -> dict[str, Any]:
    """Return a conversation's values, with the ids that its runs have in the archive."""
    values = conversation_values(conversation)
    for message, written in zip(conversation.tree, values["messages"], strict=True):
        if message.run is not None and message.run.copied_from:
            written["run"]["id"] = message.run.copied_from
    return values


if __name__ == "__main__":
    main()
