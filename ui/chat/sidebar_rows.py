"""The rows of the sidebar: what they are, and how they are drawn. Main thread."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from engine import counted
from ui.chat.session.conversation_list import ConversationList, ConversationRole, row_value
from ui.kit.dates import format_day, format_time
from ui.kit.rows import DISPLAY, NO_PARENT, Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme
from ui.records.conversations import Conversation, ConversationFolder

# Filters ``ConversationList`` by the archive.

MIME = "application/x-fullstop-conversations"
_FOLDER_PX = 14
NEEDS_YOU = "● Needs Approval"


@dataclass(frozen=True, slots=True)
class FolderHead:
    """A row that opens and closes a folder."""

    folder: ConversationFolder
    count: int


Row = FolderHead | Conversation


class SidebarRows(QAbstractListModel):
    """The rows of the sidebar."""

    filtered = Signal()

    folder_role = int(Qt.ItemDataRole.UserRole) + 20
    depth_role = int(Qt.ItemDataRole.UserRole) + 21
    count_role = int(Qt.ItemDataRole.UserRole) + 22

    def __init__(self, conversations: ConversationList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations = conversations
        self.shows_archive = False
        self._rows: list[Row] = list(self._arranged())
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

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
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
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsEditable
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags |= Qt.ItemFlag.ItemIsDropEnabled
        if isinstance(self._rows[index.row()], Conversation):
            flags |= Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled
        return flags

    def at(self, row: int) -> Row:
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

    def toggle(self, folder: ConversationFolder) -> None:
        """Open or close a folder."""
        self._conversations.folders.keep(replace(folder, is_open=not folder.is_open))

    def carried(self, conversations: Sequence[Conversation]) -> QMimeData:
        """Return the drag data for conversations."""
        data = QMimeData()
        data.setData(MIME, "\n".join(conversation.id for conversation in conversations).encode())
        return data

    def dropped(self, data: QMimeData) -> list[Conversation]:
        """Return the conversations in drag data."""
        named = bytes(data.data(MIME).data()).decode("utf-8", "replace").split("\n")
        conversations = map(self._conversations.with_id, named)
        return [conversation for conversation in conversations if conversation is not None]

    def folder_at(self, index: Index) -> ConversationFolder | None:
        """Return the folder that a drop at a row goes into."""
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        return self._conversations.folders.of(row) if isinstance(row, Conversation) else row.folder

    # -- inside ----------------------------------------------------------------------------

    def _is_listed(self, conversation: Conversation) -> bool:
        return conversation.placement.is_archived == self.shows_archive

    def _arranged(self) -> Iterator[Row]:
        """Yield the rows as they should be."""
        folders = self._conversations.folders.all()
        inside: dict[str, list[Conversation]] = {folder.id: [] for folder in folders}
        loose: list[Conversation] = []
        for conversation in self._conversations.every():
            if self._is_listed(conversation):
                inside.get(conversation.placement.folder_id, loose).append(conversation)
        for folder in folders:
            members = inside[folder.id]
            if members or not self.shows_archive:
                yield FolderHead(folder, len(members))
                if folder.is_open:
                    yield from members
        yield from loose

    def _refresh(self) -> None:
        target = list(self._arranged())
        if target == self._rows:
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        keys = [_key(self._rows[index.row()]) for index in before]
        self._rows = target
        rows = {_key(row): number for number, row in enumerate(target)}
        self.changePersistentIndexList(before, [self.index(rows.get(key, -1)) for key in keys])
        self.layoutChanged.emit()

    def _repaint(self, first: QModelIndex, last: QModelIndex) -> None:
        for row in range(first.row(), last.row() + 1):
            index = self._index(self._conversations.at(row))
            if index.isValid():
                self.dataChanged.emit(index, index)

    def _index(self, conversation: Conversation) -> QModelIndex:
        positions = (n for n, row in enumerate(self._rows) if row is conversation)
        return self.index(next(positions, -1))


def _key(row: Row) -> object:
    return row.id if isinstance(row, Conversation) else ("folder", row.folder.id)


class ConversationDelegate(RowDelegate):
    """Two lines per conversation, one per folder; the open conversation is a raised card."""

    @property
    def selected_color(self) -> str:
        colors = current_theme().colors
        return "accent_soft" if colors.is_strong else "bubble" if colors.is_dark else "raised"

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        # A view asks for all rows at once: roles would take most of the time.
        model = index.model()
        is_folder = isinstance(model, SidebarRows) and isinstance(model.at(index.row()), FolderHead)
        return QSize(120, self.height_px(1 if is_folder else 2))

    def content(self, index: Index) -> RowContent:
        """Return the content of a row."""
        colors = current_theme().colors
        inset_px = _FOLDER_PX * int(index.data(SidebarRows.depth_role) or 0)
        folder = index.data(SidebarRows.folder_role)
        if folder is not None:
            arrow = "chevron-down" if folder.is_open else "chevron-right"
            count = str(index.data(SidebarRows.count_role) or "")
            is_target = self._is_drop_target(folder)
            title = RowPart(folder.name, colors.accent if is_target else "", arrow, colors.muted)
            weight = QFont.Weight.DemiBold
            return RowContent(title, right=RowPart(count), weight=weight, inset_px=inset_px)
        right = RowPart(when_text(index.data(ConversationRole.UPDATED_AT)))
        if index.data(ConversationRole.NEEDS_PERSON):
            right = RowPart(NEEDS_YOU, colors.limit)
        elif index.data(ConversationRole.IS_RUNNING):
            right = RowPart("Answering…", colors.match)
        pin = "pin" if index.data(ConversationRole.IS_PINNED) else ""
        preview = str(index.data(ConversationRole.PREVIEW)) or "No messages yet"
        return RowContent(
            RowPart(str(index.data(ConversationRole.TITLE)), "", pin, colors.match),
            right=right,
            subtitle=RowPart(preview),
            inset_px=inset_px,
        )

    def _is_drop_target(self, folder: ConversationFolder) -> bool:
        taking: ConversationFolder | None = getattr(self._view, "taking_folder", None)
        return taking is not None and taking.id == folder.id

    def updateEditorGeometry(
        self,
        editor: QWidget,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> None:
        """Put the title's editor over the row."""
        area: QRect = option.rect
        editor.setAccessibleName("Conversation title")
        editor.setGeometry(area.adjusted(10, 6, -10, -6))


def when_text(updated_at: float) -> str:
    """Return a time of today, else a short date."""
    moment = datetime.fromtimestamp(updated_at)
    if time.time() - updated_at < 60:
        return "now"
    if moment.date() == datetime.now().date():
        return format_time(updated_at)
    return format_day(updated_at)
