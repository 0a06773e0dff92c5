"""The list of conversations: pinned ones first, then the one changed last. Main thread."""

import time
from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from ui.records.conversations import (
    UNTITLED,
    Conversation,
    ConversationSettings,
    title_of,
)
from ui.records.storing import ConversationStore

Index = QModelIndex | QPersistentModelIndex


class ConversationList(QAbstractListModel):
    """All conversations; deletions can be undone, the last one first.

    Signals:
        renamed: A conversation has another title; carries the ``Conversation``.
        deleted: A conversation was deleted; carries its title.
        restored: A deleted conversation is back; carries the ``Conversation``.
    """

    renamed = Signal(object)
    deleted = Signal(str)
    restored = Signal(object)

    title_role = int(Qt.ItemDataRole.UserRole) + 1
    updated_at_role = int(Qt.ItemDataRole.UserRole) + 2
    preview_role = int(Qt.ItemDataRole.UserRole) + 3
    is_running_role = int(Qt.ItemDataRole.UserRole) + 4
    is_pinned_role = int(Qt.ItemDataRole.UserRole) + 5

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._items = sorted(store.load_all(), key=_place)
        self._deleted: list[Conversation] = []
        self.new_settings = ConversationSettings()  # what a new conversation begins with

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
            return conversation.preview
        if role == self.is_running_role:
            return conversation.is_running
        if role == self.is_pinned_role:
            return conversation.is_pinned
        if role == Qt.ItemDataRole.AccessibleTextRole:
            pinned = ", pinned" if conversation.is_pinned else ""
            running = ", answering" if conversation.is_running else ""
            return f"Conversation {conversation.title}{pinned}{running}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return conversation.title
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Titles are edited in place."""
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.isValid() else flags

    def at(self, row: int) -> Conversation:
        """Return the conversation of a row."""
        return self._items[row]

    def row_of(self, conversation: Conversation) -> int:
        """Return the row of a conversation, -1 if it is not in the list."""
        return next((row for row, c in enumerate(self._items) if c is conversation), -1)

    def with_id(self, conversation_id: str) -> Conversation | None:
        """Return a conversation by its id."""
        return next((c for c in self._items if c.id == conversation_id), None)

    # -- intents ---------------------------------------------------------------------------

    def create(self) -> Conversation:
        """Return an empty conversation: the present one if it is unused, else a new one."""
        for conversation in self._items:
            if conversation.is_unused and not conversation.is_pinned:
                conversation.model = None  # the model that is loaded by now answers it
                self.touch(conversation)
                return conversation
        conversation = Conversation(settings=self.new_settings)
        self.insert(conversation)
        return conversation

    def insert(self, conversation: Conversation) -> None:
        """Take a new conversation into the list, with its messages."""
        self.add(conversation)
        self._store.save_messages(conversation, list(conversation.tree))

    def add(self, conversation: Conversation) -> None:
        """Take a new conversation into the list; its messages are for the caller to save."""
        self._insert(conversation)
        self._store.save(conversation)

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
        self.renamed.emit(conversation)

    def pin(self, conversation: Conversation, is_pinned: bool) -> None:
        """Pin a conversation to the top, or unpin it."""
        if conversation.is_pinned != is_pinned:
            conversation.is_pinned = is_pinned
            self._put_in_place(conversation)
            self.changed(conversation)

    def delete(self, conversation: Conversation) -> None:
        """Delete a conversation; ``undo_delete`` restores the last one."""
        row = self.row_of(conversation)
        if row < 0:
            return
        self.beginRemoveRows(QModelIndex(), row, row)
        del self._items[row]
        self.endRemoveRows()
        self._store.delete(conversation)
        self._deleted.append(conversation)
        self.deleted.emit(conversation.title)

    @property
    def can_undo_delete(self) -> bool:
        """Whether there is a deleted conversation to bring back."""
        return bool(self._deleted)

    def undo_delete(self) -> None:
        """Bring back the conversation deleted last."""
        if not self._deleted:
            return
        conversation = self._deleted.pop()
        self._insert(conversation)
        self._store.restore(conversation)
        self.restored.emit(conversation)

    def name_after(self, conversation: Conversation, question: str) -> None:
        """Title an untitled conversation after its first question."""
        if conversation.title == UNTITLED and question.strip():
            self.rename(conversation, title_of(question))

    def touch(self, conversation: Conversation) -> None:
        """Move a conversation to the top of its kind: something was just said in it."""
        conversation.updated_at = time.time()
        self._put_in_place(conversation)
        self.changed(conversation)

    def changed(self, conversation: Conversation) -> None:
        """Save a conversation and repaint its row."""
        if self.row_of(conversation) >= 0:
            self._store.save(conversation)
            self.repaint(conversation)

    def repaint(self, conversation: Conversation) -> None:
        """Repaint a conversation's row."""
        row = self.row_of(conversation)
        if row >= 0:
            self.dataChanged.emit(self.index(row), self.index(row))

    def take_found(self, conversations: Iterable[Conversation]) -> None:
        """Show conversations that the store found late, beside those that are here."""
        for conversation in conversations:
            if self.with_id(conversation.id) is None:
                self._insert(conversation)

    # -- inside ----------------------------------------------------------------------------

    def _insert(self, conversation: Conversation) -> None:
        row = self._row_for(conversation)
        self.beginInsertRows(QModelIndex(), row, row)
        self._items.insert(row, conversation)
        self.endInsertRows()

    def _put_in_place(self, conversation: Conversation) -> None:
        row = self.row_of(conversation)
        target = self._row_for(conversation)
        if row < 0 or row == target:
            return
        below = target + 1 if target > row else target
        self.beginMoveRows(QModelIndex(), row, row, QModelIndex(), below)
        self._items.insert(target, self._items.pop(row))
        self.endMoveRows()

    def _row_for(self, conversation: Conversation) -> int:
        """Return the row at which a conversation belongs, itself left out."""
        place = _place(conversation)
        return sum(_place(other) < place for other in self._items if other is not conversation)


def _place(conversation: Conversation) -> tuple[bool, float]:
    return (not conversation.is_pinned, -conversation.updated_at)
