"""Keeps conversations and presets: the interface that a database implements.

Called on the main thread. Knows no database.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage
from ui.records.passages import Document, Found, IndexedDocument, PassageSearch
from ui.records.runs import PastRun
from ui.records.titles import plain_line

MAX_HITS = 100
Speaker = Literal["", "you", "model", "tool"]
"""The author that a search is narrowed to; empty for all."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A position where the searched words occur; ``sent_at`` is the message's Unix time."""

    conversation_id: str
    message_id: str | None
    title: str
    role: str
    sent_at: float
    snippet: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """The folder, the Unix time and the speaker that a search is narrowed to, or the archive.

    Attributes:
        searching_id: The conversation whose model searches; it and archived ones are left out.
        without_folders: The ids of folders that are left out.
        snippet_chars: The length of the snippets.
    """

    folder_id: str = ""
    since: float = 0.0
    speaker: Speaker = ""
    in_archive: bool = False
    searching_id: str = ""
    without_folders: tuple[str, ...] = ()
    snippet_chars: int = 110


EVERYWHERE = SearchFilter()


def query_terms(query: str) -> tuple[str, ...]:
    """Return the words of a query, each once; a hit has all of them. Quotes keep words together."""
    parts = (quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|(\S+)', query))
    terms = (part.strip() if part.strip('" ') else "" for part in parts)
    return tuple(dict.fromkeys(term for term in terms if term))


def matches(text: str, terms: Sequence[str]) -> bool:
    """Return whether a text has all the words, ignoring case."""
    folded = text.casefold()
    return all(word.casefold() in folded for word in terms)


def snippet_of(
    text: str, terms: Sequence[str], chars: int = EVERYWHERE.snippet_chars
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a line of text around the first match, and the places of the words in it.

    The line is without Markdown's signs, unless the match is in them.
    """
    pattern = re.compile("|".join(re.escape(word) for word in terms) or r"(?!)", re.IGNORECASE)
    first = pattern.search(text)
    match = first.start() if first else 0
    begin = max(0, match - chars // 3)
    if begin and (space := text.find(" ", begin, match)) >= 0:
        begin = space + 1
    piece = text[begin : begin + chars]
    plain = plain_line(piece)
    piece = plain if pattern.search(plain) else piece
    line = ("…" if begin else "") + re.sub(r"\s", " ", piece)
    if begin + chars < len(text):
        line += "…"
    return line, tuple((m.start(), m.end() - m.start()) for m in pattern.finditer(line))


def named_hit(
    conversation_id: str,
    title: str,
    updated_at: float,
    terms: Sequence[str],
) -> Hit | None:
    """Return the hit of a conversation whose title has all the words; None for no hit."""
    if not matches(title, terms):
        return None
    line, spans = snippet_of(title, terms)
    return Hit(conversation_id, None, title, "title", updated_at, line, spans)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that the window shows: of the conversations' file, a model or the settings."""

    sentence: str
    detail: str
    path: Path | None = None
    can_be_recovered: bool = False
    has_backup: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """Counts of a recovery from a damaged file."""

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
    def backups_folder(self) -> Path | None: ...

    @property
    def problem(self) -> Problem | None:
        """What went wrong when the store was opened."""

    def on_problem(self, report: Callable[[Problem | None], None]) -> None:
        """Report on the main thread what cannot be saved, and None once all is saved."""

    def on_found(self, show: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``show`` on the main thread with conversations and presets that are found later."""

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that could not be saved and will be tried again."""

    @property
    def is_writing(self) -> bool: ...

    @property
    def failing_because(self) -> str:
        """Why saving fails, as the end of a sentence; empty while it works."""

    def is_saved(self, conversation: Conversation) -> bool:
        """Return whether everything saved of a conversation can be loaded again."""

    def conversations(self) -> list[Conversation]: ...

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation, if they are not loaded yet."""

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages without loading them into it; None if they cannot be read."""

    def save(self, conversation: Conversation) -> None:
        """Save a conversation's own values; a new one is added."""

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

    def restore(self, conversation: Conversation) -> None: ...

    async def search(
        self, query: str, filter_: SearchFilter = EVERYWHERE, limit: int = MAX_HITS
    ) -> list[Hit]:
        """Return the places where the words of a query occur, best first."""

    async def find_passages(self, search: PassageSearch) -> Found:
        """Return the passages about questions in documents of a conversation and of its folder."""

    async def passages_without_vector(
        self, conversation_id: str, folder_id: str, model: str, count: int
    ) -> list[tuple[int, str]]:
        """Return the numbers and texts of some passages that have no vector of a model yet."""

    async def save_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> bool:
        """Save the vectors of passages, by their numbers; return whether that was possible."""

    async def folder_documents(self, folder_id: str) -> list[IndexedDocument]:
        """Return the documents that are searched for the conversations of a folder."""

    async def add_document(
        self, folder_id: str, document: Document, remark: str, on_added: Callable[[int], object]
    ) -> None:
        """Add a document to a folder, in parts; raises ``FileRefused``.

        ``on_added`` gets the passages so far. Nothing of it is left if this is cancelled.
        """

    async def show_document(self, folder_id: str, document_id: str, *, is_shown: bool) -> bool:
        """Remove a document from a folder, or undo that; return whether it was possible."""

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers that were generated here, newest first."""

    def presets(self) -> list[Preset]: ...

    def save_preset(self, preset: Preset) -> None: ...

    def delete_preset(self, name: str) -> None: ...

    def folders(self) -> list[ConversationFolder]: ...

    def save_folder(self, folder: ConversationFolder) -> None: ...

    def delete_folder(self, folder_id: str) -> None:
        """Delete a folder; the caller moves the conversations in it."""

    def facts(self) -> list[Fact]: ...

    def save_fact(self, fact: Fact) -> None: ...

    def delete_fact(self, fact_id: str) -> None: ...

    async def flush(self) -> None:
        """Wait until all earlier changes are saved."""

    async def recover(self, path: Path) -> Recovered:
        """Add the readable conversations of a backup or a damaged file; ``on_found`` gets them."""
