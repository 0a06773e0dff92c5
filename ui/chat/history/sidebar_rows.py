"""The rows of the sidebar: folders with their conversations, then all other conversations.

Main thread. Filters ``ConversationList`` by the archive and by a tag. Has no widgets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from engine import counted
from ui.chat.history.conversation_list import ConversationList
from ui.chat.history.conversation_row import row_value
from ui.records.conversations import Conversation, ConversationFolder

Index = QModelIndex | QPersistentModelIndex
MIME = "application/x-fullstop-conversations"
# If there are more changes than this, the list is reset: single changes would take longer.
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class FolderHead:
    """A row that opens and closes a folder."""

    folder: ConversationFolder
    count: int


Row = FolderHead | Conversation


class SidebarRows(QAbstractListModel):
    """The rows of the sidebar.

    Signals:
        filtered: The filters have changed.
    """

    filtered = Signal()

    folder_role = int(Qt.ItemDataRole.UserRole) + 20
    depth_role = int(Qt.ItemDataRole.UserRole) + 21
    count_role = int(Qt.ItemDataRole.UserRole) + 22

    def __init__(self, conversations: ConversationList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations = conversations
        self.shows_archive = False
        self.tag = ""
        self._rows: list[Row] = list(self._wanted())
        for signal in (
            conversations.rowsInserted,
            conversations.rowsRemoved,
            conversations.rowsMoved,
            conversations.modelReset,
            conversations.placed,
            conversations.folders.changed,
        ):
            signal.connect(self._refresh)
        conversations.dataChanged.connect(self._repaint)

    # -- reading ---------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Return the value of a role for a row."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self._rows[index.row()]
        if isinstance(row, Conversation):
            if role == self.depth_role:
                return int(self._conversations.folders.of(row) is not None)
            return row_value(row, role)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return row.folder.name
        if role == self.folder_role:
            return row.folder
        if role == self.count_role:
            return row.count
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.folder.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            state = "open" if row.folder.is_open else "closed"
            return f"Folder {row.folder.name}, {counted(row.count, 'conversation')}, {state}"
        return None

    def setData(self, index: Index, value: Any, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        """Rename a conversation or a folder; an empty name is ignored."""
        name = str(value).strip()
        if role != Qt.ItemDataRole.EditRole or not index.isValid() or not name:
            return False
        row = self._rows[index.row()]
        if isinstance(row, Conversation):
            self._conversations.rename(row, name)
        else:
            self._conversations.folders.keep(replace(row.folder, name=name))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return flags: names can be edited, conversations dragged, and folders accept them."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsEditable
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags |= Qt.ItemFlag.ItemIsDropEnabled
        if isinstance(self._rows[index.row()], Conversation):
            flags |= Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled
        return flags

    def at(self, row: int) -> Row:
        """Return a row."""
        return self._rows[row]

    def conversations_at(self, indexes: Iterable[Index]) -> list[Conversation]:
        """Return the conversations of some rows, in the order of the list."""
        rows = sorted({index.row() for index in indexes if index.isValid()})
        return [row for row in map(self._rows.__getitem__, rows) if isinstance(row, Conversation)]

    def index_of(self, conversation: Conversation) -> QModelIndex:
        """Return the index of a conversation; an invalid index if it is not listed."""
        return self._index(conversation)

    # -- intents ---------------------------------------------------------------------------

    def show_archive(self, shows_archive: bool) -> None:
        """List the archived conversations, or the others."""
        if self.shows_archive != shows_archive:
            self.shows_archive = shows_archive
            self._refresh()
            self.filtered.emit()

    def show_tag(self, tag: str) -> None:
        """List only conversations with a tag; empty for all."""
        if self.tag != tag:
            self.tag = tag
            self._refresh()
            self.filtered.emit()

    def toggle(self, folder: ConversationFolder) -> None:
        """Open or close a folder."""
        self._conversations.folders.keep(replace(folder, is_open=not folder.is_open))

    def carried(self, conversations: Sequence[Conversation]) -> QMimeData:
        """Return the drag data for conversations."""
        data = QMimeData()
        data.setData(MIME, "\n".join(one.id for one in conversations).encode())
        return data

    def dropped(self, data: QMimeData) -> list[Conversation]:
        """Return the conversations in drag data."""
        named = bytes(data.data(MIME).data()).decode("utf-8", "replace").split("\n")
        found = map(self._conversations.with_id, named)
        return [one for one in found if one is not None]

    def folder_at(self, index: Index) -> ConversationFolder | None:
        """Return the folder that a drop at a row goes into."""
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        return self._conversations.folders.of(row) if isinstance(row, Conversation) else row.folder

    # -- inside ----------------------------------------------------------------------------

    def _is_listed(self, conversation: Conversation) -> bool:
        place = conversation.placement
        return place.is_archived == self.shows_archive and (not self.tag or self.tag in place.tags)

    def _wanted(self) -> Iterator[Row]:
        """Yield the rows as they should be."""
        folders = self._conversations.folders.all()
        inside: dict[str, list[Conversation]] = {folder.id: [] for folder in folders}
        loose: list[Conversation] = []
        for conversation in self._conversations.every():
            if self._is_listed(conversation):
                inside.get(conversation.placement.folder_id, loose).append(conversation)
        is_filtered = self.shows_archive or bool(self.tag)
        for folder in folders:
            found = inside[folder.id]
            if found or not is_filtered:
                yield FolderHead(folder, len(found))
                if folder.is_open:
                    yield from found
        yield from loose

    def _refresh(self) -> None:
        wanted = list(self._wanted())
        if wanted == self._rows:
            return
        if not self._stepwise(wanted):
            self.beginResetModel()
            self._rows = wanted
            self.endResetModel()

    def _stepwise(self, wanted: list[Row]) -> bool:
        """Change the rows one by one, so that views keep their place; False for many changes."""
        kept, listed = set(map(_key, wanted)), set(map(_key, self._rows))
        if len(kept ^ listed) > _MOST_STEPS:
            return False
        for place in range(len(self._rows) - 1, -1, -1):
            if _key(self._rows[place]) not in kept:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self._rows[place]
                self.endRemoveRows()
        steps = 0
        for place, row in enumerate(wanted):
            if place < len(self._rows) and _key(self._rows[place]) == _key(row):
                continue
            steps += 1
            if steps > _MOST_STEPS:
                return False
            if _key(row) in listed:
                self._move(_key(row), place)
            else:
                self.beginInsertRows(QModelIndex(), place, place)
                self._rows.insert(place, row)
                self.endInsertRows()
        if self._rows != wanted:  # the name or count of a folder has changed
            self._rows = wanted
        if wanted:
            self.dataChanged.emit(self.index(0), self.index(len(wanted) - 1))
        return True

    def _move(self, key: object, place: int) -> None:
        at = next(n for n in range(place, len(self._rows)) if _key(self._rows[n]) == key)
        self.beginMoveRows(QModelIndex(), at, at, QModelIndex(), place)
        self._rows.insert(place, self._rows.pop(at))
        self.endMoveRows()

    def _repaint(self, first: QModelIndex, last: QModelIndex) -> None:
        for row in range(first.row(), last.row() + 1):
            index = self._index(self._conversations.at(row))
            if index.isValid():
                self.dataChanged.emit(index, index)

    def _index(self, conversation: Conversation) -> QModelIndex:
        found = (n for n, row in enumerate(self._rows) if row is conversation)
        return self.index(next(found, -1))


def _key(row: Row) -> object:
    return row.id if isinstance(row, Conversation) else ("folder", row.folder.id)
