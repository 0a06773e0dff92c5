"""The rows of the sidebar: what they are, and how they are drawn. Main thread."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from engine import counted
from ui.chat.session.conversation_list import ConversationList, ConversationRole, row_value
from ui.kit import icons
from ui.kit.dates import day_words, time_words
from ui.kit.icons import draw_row_ground
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.theme import current_theme
from ui.records.conversations import Conversation, ConversationFolder

# Filters ``ConversationList`` by the archive.

MIME = "application/x-fullstop-conversations"
# More changes reset the list: after each single one a view lays out all of its rows.
_MOST_STEPS = 16


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

    def _wanted(self) -> Iterator[Row]:
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
        new = [_key(row) not in listed for row in wanted]
        inserted_runs = sum(is_new and not before for before, is_new in pairwise([False, *new]))
        if len(listed - kept) + inserted_runs > _MOST_STEPS:
            return False
        for place in range(len(self._rows) - 1, -1, -1):
            if _key(self._rows[place]) not in kept:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self._rows[place]
                self.endRemoveRows()
        place = steps = 0
        while place < len(wanted):
            key, end = _key(wanted[place]), place + 1
            if place >= len(self._rows) or _key(self._rows[place]) != key:
                steps += 1
                if steps > _MOST_STEPS:
                    return False
                if key in listed:
                    self._move(key, place)
                else:  # with the new rows behind it: a view lays out all rows for each step
                    while end < len(wanted) and _key(wanted[end]) not in listed:
                        end += 1
                    self.beginInsertRows(QModelIndex(), place, end - 1)
                    self._rows[place:place] = wanted[place:end]
                    self.endInsertRows()
            place = end
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
        places = (n for n, row in enumerate(self._rows) if row is conversation)
        return self.index(next(places, -1))


def _key(row: Row) -> object:
    return row.id if isinstance(row, Conversation) else ("folder", row.folder.id)


_HEIGHT_LINES = 2.0
_PIN_PX = 13
_ARROW_PX = 15
_FOLDER_PX = 14
_ELIDE = Qt.TextElideMode.ElideRight
_LEAST_TITLE = 0.55  # of the width of its line
NEEDS_YOU = "● Needs Approval"


class ConversationDelegate(QStyledItemDelegate):
    """Draws two lines per row; the open conversation is a raised card."""

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view
        current_theme().changed.connect(self._repaint)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        # A view asks for all rows at once: roles would take most of the time.
        line, model = self._view.fontMetrics().lineSpacing(), index.model()
        if isinstance(model, SidebarRows) and isinstance(model.at(index.row()), FolderHead):
            return QSize(120, line + 16)
        return QSize(120, round(line * _HEIGHT_LINES) + 22)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row."""
        theme = current_theme()
        colors = theme.colors
        inset = _FOLDER_PX * int(index.data(SidebarRows.depth_role) or 0)
        area: QRect = option.rect.adjusted(8 + inset, 1, -8, -1)
        state: QStyle.StateFlag = option.state
        painter.save()
        chosen = colors.bubble if colors.is_dark else colors.raised
        chosen = colors.accent_soft if colors.is_strong else chosen
        has_ring = _has_keyboard(state) and self._view.hasFocus()
        draw_row_ground(painter, area, state, colors, chosen=chosen, has_ring=has_ring)
        folder = index.data(SidebarRows.folder_role)
        if folder is not None:
            self._paint_folder(painter, area, index, folder, is_current=_has_keyboard(state))
            painter.restore()
            return
        inner = area.adjusted(10, 8, -10, -8)
        is_running = bool(index.data(ConversationRole.IS_RUNNING))
        self._paint_words(painter, inner, index, is_running)
        painter.restore()

    def _repaint(self) -> None:
        self._view.update()

    def _paint_folder(
        self,
        painter: QPainter,
        area: QRect,
        index: Index,
        folder: ConversationFolder,
        *,
        is_current: bool,
    ) -> None:
        """Draw a folder: an arrow, its name, and the number of its conversations."""
        theme = current_theme()
        colors = theme.colors
        if is_current or self._takes(folder):
            painter.setPen(QColor(colors.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        size = _ARROW_PX
        name = "chevron-down" if folder.is_open else "chevron-right"
        arrow = icons.pixmap(name, colors.muted, size)
        inner = area.adjusted(8, 0, -10, 0)
        painter.drawPixmap(inner.left(), inner.center().y() - size // 2, arrow)
        count = str(index.data(SidebarRows.count_role) or "")
        small, bold = QFont(self._view.font()), QFont(self._view.font())
        small.setPointSizeF(small.pointSizeF() * 0.9)
        bold.setWeight(QFont.Weight.DemiBold)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(small)
        painter.setPen(QColor(colors.faint))
        painter.drawText(inner, middle | Qt.AlignmentFlag.AlignRight, count)
        room = inner.width() - size - 6 - QFontMetrics(small).horizontalAdvance(count) - 8
        painter.setFont(bold)
        painter.setPen(QColor(colors.text))
        words = QFontMetrics(bold).elidedText(folder.name, _ELIDE, room)
        painter.drawText(inner.adjusted(size + 6, 0, 0, 0), middle, words)

    def _takes(self, folder: ConversationFolder) -> bool:
        taking: ConversationFolder | None = getattr(self._view, "taking_folder", None)
        return taking is not None and taking.id == folder.id

    def _paint_words(
        self,
        painter: QPainter,
        inner: QRect,
        index: Index,
        is_running: bool,
    ) -> None:
        theme = current_theme()
        colors = theme.colors
        bold, small = QFont(self._view.font()), QFont(self._view.font())
        bold.setWeight(QFont.Weight.Medium)
        small.setPointSizeF(small.pointSizeF() * 0.9)
        bold_metrics, small_metrics = QFontMetrics(bold), QFontMetrics(small)
        updated_at = index.data(ConversationRole.UPDATED_AT)
        needs_person = bool(index.data(ConversationRole.NEEDS_PERSON))
        when = "Answering…" if is_running else when_words(updated_at)
        when = NEEDS_YOU if needs_person else when
        when_width = small_metrics.horizontalAdvance(when)
        if when_width > inner.width() // 2 and not (is_running or needs_person):
            when, when_width = "", 0  # beside a long date with large text there is no title
        half = inner.height() // 2
        top = QRect(inner.left(), inner.top(), inner.width(), half)
        painter.setFont(bold)
        painter.setPen(QColor(colors.text))
        title = str(index.data(ConversationRole.TITLE))
        # With large text the line below has the time, or little would be seen of the title.
        is_narrow = inner.width() - when_width < _LEAST_TITLE * inner.width()
        room = inner.width() - (0 if is_narrow else when_width + 10)
        if index.data(ConversationRole.IS_PINNED):
            size = _PIN_PX
            pin = icons.pixmap("pin", colors.match, size)
            painter.drawPixmap(top.left(), top.center().y() - size // 2, pin)
            room -= size + 4
            top = top.adjusted(size + 4, 0, 0, 0)
        title = bold_metrics.elidedText(title, _ELIDE, room)
        painter.drawText(top, Qt.AlignmentFlag.AlignVCenter, title)
        painter.setFont(small)
        color = colors.match if is_running else colors.faint
        painter.setPen(QColor(colors.limit if needs_person else color))
        bottom = QRect(inner.left(), inner.top() + half, inner.width(), inner.height() - half)
        beside = bottom if is_narrow else top
        painter.drawText(beside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, when)
        painter.setPen(QColor(colors.muted))
        bottom = bottom.adjusted(0, 0, -(when_width + 10) if is_narrow else 0, 0)
        preview = str(index.data(ConversationRole.PREVIEW)) or "No messages yet"
        preview = small_metrics.elidedText(preview, _ELIDE, bottom.width())
        painter.drawText(bottom, Qt.AlignmentFlag.AlignVCenter, preview)

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


def _has_keyboard(state: QStyle.StateFlag) -> bool:
    return bool(state & QStyle.StateFlag.State_HasFocus)


def when_words(updated_at: float) -> str:
    """Return a time of today, else a short date."""
    moment = datetime.fromtimestamp(updated_at)
    if time.time() - updated_at < 60:
        return "now"
    if moment.date() == datetime.now().date():
        return time_words(updated_at)
    return day_words(updated_at)
