"""Conversations, where they are kept, and the list of them.

Main thread. ``ConversationStore`` is the seam at which a database replaces memory.
"""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from ui.viewmodels.runs import Run

UNTITLED = "New conversation"
_TITLE_CHARS = 48

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class StopEntry:
    """A row of a stop list: the sequence exactly as it was given, and whether it counts."""

    sequence: str
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """What belongs to a conversation beside its messages.

    Attributes:
        system_prompt: Instructions that precede the conversation; empty for none.
        temperature: 0 always takes the likeliest token; None is the model's own default.
        max_tokens: Most tokens of one answer; None until the context is full.
        is_thinking: Whether a model that can reason first shall do so.
    """

    system_prompt: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    is_thinking: bool = False


@dataclass(eq=False)
class ChatMessage:
    """One message of a conversation; an assistant's message has the run that made it."""

    role: Literal["user", "assistant"]
    text: str = ""
    run: Run | None = None
    created_at: float = field(default_factory=time.time)


@dataclass(eq=False)
class Conversation:
    """Messages in their order, with the settings and the stop list they run with."""

    title: str = UNTITLED
    messages: list[ChatMessage] = field(default_factory=list)
    settings: ConversationSettings = field(default_factory=ConversationSettings)
    stops: list[StopEntry] = field(default_factory=list)
    draft: str = ""
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def enabled_stops(self) -> tuple[str, ...]:
        """Return the sequences that count, in their order, each once, empty ones left out."""
        wanted = (entry.sequence for entry in self.stops if entry.is_enabled and entry.sequence)
        return tuple(dict.fromkeys(wanted))


class ConversationStore(Protocol):
    """Where conversations are kept."""

    def load_all(self) -> list[Conversation]:
        """Return all conversations."""

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation as it is now; a new one is added."""

    def delete(self, conversation: Conversation) -> None:
        """Forget a conversation."""


class MemoryConversationStore:
    """Keeps conversations as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[str, Conversation] = {}

    def load_all(self) -> list[Conversation]:
        """Return all conversations."""
        return list(self._kept.values())

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation as it is now; a new one is added."""
        self._kept[conversation.id] = conversation

    def delete(self, conversation: Conversation) -> None:
        """Forget a conversation."""
        self._kept.pop(conversation.id, None)


class ConversationList(QAbstractListModel):
    """All conversations, the one changed last first; deletion can be undone.

    Signals:
        deleted: A conversation has gone; carries its title.
        restored: The deleted conversation is back; carries the ``Conversation``.
    """

    deleted = Signal(str)
    restored = Signal(object)

    title_role = int(Qt.ItemDataRole.UserRole) + 1
    updated_at_role = int(Qt.ItemDataRole.UserRole) + 2
    preview_role = int(Qt.ItemDataRole.UserRole) + 3
    is_running_role = int(Qt.ItemDataRole.UserRole) + 4

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._items = sorted(store.load_all(), key=lambda c: c.updated_at, reverse=True)
        self._deleted: Conversation | None = None

    # -- reading ---------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of conversations."""
        return 0 if parent.isValid() else len(self._items)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Return a title, a time, a preview, or whether an answer is running."""
        if not index.isValid() or index.row() >= len(self._items):
            return None
        conversation = self._items[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, self.title_role):
            return conversation.title
        if role == self.updated_at_role:
            return conversation.updated_at
        if role == self.preview_role:
            return _preview(conversation)
        if role == self.is_running_role:
            return _is_running(conversation)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            running = ", answering" if _is_running(conversation) else ""
            return f"Conversation {conversation.title}{running}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return conversation.title
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Titles are edited in place."""
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def at(self, row: int) -> Conversation:
        """Return the conversation of a row."""
        return self._items[row]

    def row_of(self, conversation: Conversation) -> int:
        """Return the row of a conversation, -1 if it is not in the list."""
        return next((row for row, c in enumerate(self._items) if c is conversation), -1)

    # -- intents ---------------------------------------------------------------------------

    def create(self) -> Conversation:
        """Return an empty conversation: the present one if it is unused, else a new one."""
        for conversation in self._items:
            if not conversation.messages and not conversation.draft.strip():
                self.touch(conversation)
                return conversation
        conversation = Conversation()
        self._insert(0, conversation)
        return conversation

    def setData(self, index: Index, value: Any, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        """Rename a conversation; an empty title is not taken."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        title = str(value).strip()
        if not title:
            return False
        self.rename(self._items[index.row()], title)
        return True

    def rename(self, conversation: Conversation, title: str) -> None:
        """Give a conversation another title."""
        conversation.title = title
        self.changed(conversation)

    def delete(self, conversation: Conversation) -> None:
        """Take a conversation away; ``undo_delete`` brings the last one back."""
        row = self.row_of(conversation)
        if row < 0:
            return
        self.beginRemoveRows(QModelIndex(), row, row)
        del self._items[row]
        self.endRemoveRows()
        self._store.delete(conversation)
        self._deleted = conversation
        self.deleted.emit(conversation.title)

    def undo_delete(self) -> None:
        """Bring back the conversation deleted last."""
        if self._deleted is None:
            return
        conversation, self._deleted = self._deleted, None
        later = [c for c in self._items if c.updated_at > conversation.updated_at]
        self._insert(len(later), conversation)
        self.restored.emit(conversation)

    def name_after(self, conversation: Conversation, question: str) -> None:
        """Title an untitled conversation after its first question."""
        if conversation.title == UNTITLED and question.strip():
            line = " ".join(question.split())
            title = line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1].rstrip() + "…"
            self.rename(conversation, title)

    def touch(self, conversation: Conversation) -> None:
        """Move a conversation to the top: something was just said in it."""
        conversation.updated_at = time.time()
        row = self.row_of(conversation)
        if row > 0:
            self.beginMoveRows(QModelIndex(), row, row, QModelIndex(), 0)
            self._items.insert(0, self._items.pop(row))
            self.endMoveRows()
        self.changed(conversation)

    def changed(self, conversation: Conversation) -> None:
        """Save a conversation and repaint its row."""
        row = self.row_of(conversation)
        if row < 0:
            return
        self._store.save(conversation)
        self.dataChanged.emit(self.index(row), self.index(row))

    def _insert(self, row: int, conversation: Conversation) -> None:
        self.beginInsertRows(QModelIndex(), row, row)
        self._items.insert(row, conversation)
        self.endInsertRows()
        self._store.save(conversation)


def _is_running(conversation: Conversation) -> bool:
    if not conversation.messages:
        return False
    run = conversation.messages[-1].run
    return run is not None and not run.is_over


def _preview(conversation: Conversation) -> str:
    for message in reversed(conversation.messages):
        text = message.text if message.run is None else message.run.text
        if text.strip():
            return " ".join(text[:200].split())
    return ""
