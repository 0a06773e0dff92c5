"""Keeps conversations and presets: the interface that a database implements, and one in memory.

Called on the main thread. Knows no database.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.messages import ConversationMessage
from ui.records.runs import PastRun

# Search: the words of a query, what it is narrowed to, and the snippet of a text that shows them.

MOST_HITS = 100
_BEFORE_CHARS = 24
_SNIPPET_CHARS = 110


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where the searched words occur.

    Attributes:
        said_at: Unix time of the message, in seconds.
    """

    conversation_id: str
    message_id: str | None
    title: str
    role: str
    said_at: float
    snippet: str
    spans: tuple[tuple[int, int], ...]


class Speaker(StrEnum):
    """Whose words a search looks for."""

    ANYONE = ""
    YOU = "you"
    MODEL = "model"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a search is narrowed to.

    Attributes:
        since: Unix time; only what was said at or after it.
    """

    folder_id: str = ""
    since: float = 0.0
    speaker: Speaker = Speaker.ANYONE

    def takes(self, conversation: Conversation) -> bool:
        """Return whether a conversation is searched."""
        return self.folder_id in ("", conversation.placement.folder_id)


EVERYWHERE = SearchFilter()
_SPEAKERS = {
    "user": Speaker.YOU,
    "assistant": Speaker.MODEL,
    "thinking": Speaker.MODEL,
    "tool": Speaker.TOOL,
}


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, each once; a hit has all of them. Quotes keep words together."""
    parts = (quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|(\S+)', query))
    words = (word.strip() if word.strip('" ') else "" for word in parts)
    return tuple(dict.fromkeys(word for word in words if word))


def matches(text: str, words: Sequence[str]) -> bool:
    """Return whether a text has all the words, ignoring case."""
    folded = text.casefold()
    return all(word.casefold() in folded for word in words)


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a line of text around the first match, and the places of the words in it."""
    pattern = re.compile("|".join(re.escape(word) for word in words) or r"(?!)", re.IGNORECASE)
    first = pattern.search(text)
    begin = max(0, (first.start() if first else 0) - _BEFORE_CHARS)
    if begin and (space := text.find(" ", begin, begin + 12)) >= 0:
        begin = space + 1
    piece = text[begin : begin + _SNIPPET_CHARS]
    line = ("…" if begin else "") + re.sub(r"\s", " ", piece)
    if begin + _SNIPPET_CHARS < len(text):
        line += "…"
    return line, tuple((m.start(), m.end() - m.start()) for m in pattern.finditer(line))


def named_hit(
    conversation_id: str,
    title: str,
    updated_at: float,
    words: Sequence[str],
) -> Hit | None:
    """Return the hit of a conversation whose title has all the words; None for no hit."""
    if not matches(title, words):
        return None
    line, spans = snippet_of(title, words)
    return Hit(conversation_id, None, title, "title", updated_at, line, spans)


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """A problem with how conversations are kept, for the person."""

    sentence: str
    detail: str
    path: Path | None = None
    can_be_recovered: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was recovered from a damaged file."""

    conversations: int = 0
    messages: int = 0
    unreadable: int = 0
    cause: str = ""


class ConversationStore(Protocol):
    """Keeps conversations. Saving returns at once; ``flush`` waits until it is done."""

    @property
    def pictures_folder(self) -> Path | None:
        """The folder of the pictures of imported messages; None keeps none."""

    @property
    def backups_folder(self) -> Path | None:
        """The folder of the daily backups; None if there are none."""

    @property
    def problem(self) -> StoreProblem | None:
        """What went wrong when the store was opened."""

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Call ``tell`` on the main thread with a problem when something cannot be saved, and with
        None once everything is saved.
        """

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``tell`` on the main thread with conversations and presets that are found later."""

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that could not be saved and will be tried again."""

    @property
    def is_writing(self) -> bool:
        """Whether something that a person wrote is still being saved."""

    @property
    def failing_because(self) -> str:
        """Why saving fails, as the end of a sentence; empty while it works."""

    def is_kept(self, conversation: Conversation) -> bool:
        """Return whether everything saved of a conversation can be loaded again."""

    def load_all(self) -> list[Conversation]:
        """Return all conversations, as they were when the store was opened."""

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation, if they are not loaded yet."""

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages of a conversation without loading them into it; None if they
        cannot be read.
        """

    def save(self, conversation: Conversation) -> None:
        """Save a conversation's title, settings, stops and draft; a new one is added."""

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Save messages in their present state, parents first."""

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Delete messages; saving them restores them."""

    def delete(self, conversation: Conversation) -> None:
        """Delete a conversation; ``restore`` can bring it back until the program ends."""

    def restore(self, conversation: Conversation) -> None:
        """Restore a deleted conversation."""

    async def search(
        self, query: str, wanted: SearchFilter = EVERYWHERE, limit: int = MOST_HITS
    ) -> list[Hit]:
        """Return the places where the words of a query occur, best first."""

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers that were generated here, newest first."""

    def load_presets(self) -> list[Preset]:
        """Return all presets, as they were when the store was opened."""

    def save_preset(self, preset: Preset) -> None:
        """Save a preset; one of the same name is replaced."""

    def delete_preset(self, name: str) -> None:
        """Delete a preset."""

    def load_folders(self) -> list[ConversationFolder]:
        """Return all folders, as they were when the store was opened or a file was found later."""

    def save_folder(self, folder: ConversationFolder) -> None:
        """Save a folder; one of the same id is replaced."""

    def delete_folder(self, folder_id: str) -> None:
        """Delete a folder; the caller moves the conversations in it."""

    async def flush(self) -> None:
        """Wait until all earlier changes are saved."""

    async def recover(
        self, path: Path, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Add the readable conversations of a backup or of a damaged file that are not here.

        ``advance`` gets the number of rows read and of all rows on the main thread. The listener of
        ``on_found`` gets the results.
        """


def _hits_in(
    conversation: Conversation, words: Sequence[str], wanted: SearchFilter
) -> Iterator[Hit]:
    identity, title = conversation.id, conversation.title
    is_recent = conversation.updated_at >= wanted.since
    if (
        wanted.speaker is Speaker.ANYONE
        and is_recent
        and (named := named_hit(identity, title, conversation.updated_at, words))
    ):
        yield named
    for message in conversation.tree:
        if message.created_at < wanted.since:
            continue
        for role, text in _parts(message):
            is_wanted = wanted.speaker in (Speaker.ANYONE, _SPEAKERS[role])
            if is_wanted and matches(text, words):
                line, spans = snippet_of(text, words)
                yield Hit(identity, message.id, title, role, message.created_at, line, spans)


def _parts(message: ConversationMessage) -> Iterator[tuple[str, str]]:
    """Yield the parts of a message that are searched, each with its role."""
    yield message.role, message.said
    if message.run is not None:
        yield "thinking", message.run.thinking
        calls = (f"{call.name} {call.arguments}" for call in message.run.tool_calls)
        yield "tool", "\n".join([*calls, *(result.text for result in message.run.results)])


class MemoryConversationStore:
    """Keeps conversations in memory, until the process ends."""

    def __init__(self, problem: StoreProblem | None = None) -> None:
        self._problem = problem
        self._kept: dict[str, Conversation] = {}
        self._presets: dict[str, Preset] = {}
        self._folders: dict[str, ConversationFolder] = {}

    @property
    def pictures_folder(self) -> Path | None:
        """None: without a file there is no folder."""
        return None

    @property
    def backups_folder(self) -> Path | None:
        """None: without a file there are no backups."""
        return None

    @property
    def problem(self) -> StoreProblem | None:
        """Why there is no file."""
        return self._problem

    @property
    def has_unsaved(self) -> bool:
        """Whether anything was written although there should have been a file."""
        written = any(not conversation.is_unused for conversation in self._kept.values())
        return self._problem is not None and written

    @property
    def is_writing(self) -> bool:
        """Always False: memory keeps everything at once."""
        return False

    @property
    def failing_because(self) -> str:
        """Always empty: saving in memory does not fail."""
        return ""

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Do nothing: memory never has to tell this."""

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Do nothing: memory never has to tell this."""

    def is_kept(self, conversation: Conversation) -> bool:
        """Return False: there is no second copy that could be loaded again."""
        return False

    def load_all(self) -> list[Conversation]:
        return list(self._kept.values())

    async def fill(self, conversation: Conversation) -> None:
        """Do nothing: all messages are in memory already."""

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        return list(conversation.tree)

    def save(self, conversation: Conversation) -> None:
        """Add a conversation if it is new."""
        self._kept[conversation.id] = conversation

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Do nothing: the messages are in the conversation itself."""

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Do nothing: the messages are in the conversation itself."""

    def delete(self, conversation: Conversation) -> None:
        self._kept.pop(conversation.id, None)

    def restore(self, conversation: Conversation) -> None:
        """Restore a deleted conversation."""
        self.save(conversation)

    async def search(
        self, query: str, wanted: SearchFilter = EVERYWHERE, limit: int = MOST_HITS
    ) -> list[Hit]:
        """Return the places where the words of a query occur, newest first."""
        words = words_of(query)
        hits: list[Hit] = []
        for conversation in self._kept.values() if words else ():
            if wanted.takes(conversation):
                hits += _hits_in(conversation, words, wanted)
        # A longer version of an answer has copies of the messages after it.
        once = {(hit.conversation_id, hit.role, hit.said_at, hit.snippet): hit for hit in hits}
        return sorted(once.values(), key=lambda hit: hit.said_at, reverse=True)[:limit]

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers that were generated here, newest first."""
        answers = [
            PastRun(
                conversation.id,
                conversation.title,
                message.parent.text if message.parent else "",
                message.run,
            )
            for conversation in self._kept.values()
            for message in conversation.tree
            if message.run is not None and not message.run.is_from_elsewhere
        ]
        return sorted(answers, key=lambda past: past.run.started_at, reverse=True)[:limit]

    def load_presets(self) -> list[Preset]:
        return list(self._presets.values())

    def save_preset(self, preset: Preset) -> None:
        """Save a preset; one of the same name is replaced."""
        self._presets[preset.name] = preset

    def delete_preset(self, name: str) -> None:
        self._presets.pop(name, None)

    def load_folders(self) -> list[ConversationFolder]:
        return list(self._folders.values())

    def save_folder(self, folder: ConversationFolder) -> None:
        """Save a folder; one of the same id is replaced."""
        self._folders[folder.id] = folder

    def delete_folder(self, folder_id: str) -> None:
        """Forget a folder."""
        self._folders.pop(folder_id, None)

    async def flush(self) -> None:
        """Return at once: nothing has to be written."""

    async def recover(
        self, path: Path, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Do nothing: there is no file."""
        return Recovered(cause="conversations are not saved")
