"""The rows of the sidebar and their drawing. Main thread."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QLocale,
    QMimeData,
    QModelIndex,
    QObject,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from engine.wording import counted
from ui.chat.session.conversation_list import ConversationList
from ui.kit import icons
from ui.kit.dates import format_day_briefly, format_time
from ui.kit.labels import plain_tooltip
from ui.kit.rows import DISPLAY, NO_PARENT, Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme
from ui.records.conversations import Conversation, ConversationFolder

_MIME = "application/x-fullstop-conversations"
NEEDS_YOU = "● Needs Approval"
Row = ConversationFolder | Conversation | str
"""A folder's row opens and closes it; a text is the heading of a section."""
_MORE_PX = 14


class SidebarRows(QAbstractListModel):
    """The rows of the sidebar."""

    filtered = Signal()
    dropped = Signal(list, object)  # conversations, folder or None

    def __init__(self, conversations: ConversationList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversations = conversations
        self.shows_archive = False
        self.open_conversation: Conversation | None = None
        self._counts: dict[str, int] = {}  # conversations, by folder
        self._rows: list[Row] = list(self._arranged())
        conversations.arranged.connect(self._refresh)
        conversations.folders.changed.connect(self._refresh)
        conversations.repainted.connect(self._repaint)

    # -- reading ---------------------------------------------------------------------------

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self._rows[index.row()]
        roles = Qt.ItemDataRole
        if role in (roles.DisplayRole, roles.EditRole):
            return _name(row)
        if role == roles.ToolTipRole:
            if not isinstance(row, Conversation):
                return None if isinstance(row, str) else plain_tooltip(_name(row))
            running = NEEDS_YOU.lstrip("● ") if row.needs_user else "Answering…"
            states = ((running, row.is_running or row.needs_user), ("Draft", row.has_draft))
            below = [name for name, is_so in states if is_so] or [when_text(row.updated_at)]
            return plain_tooltip("\n".join([row.listed_title, *below]))
        return self._spoken(row) if role == roles.AccessibleTextRole else None

    def count_in(self, folder: ConversationFolder) -> int:
        return self._counts.get(folder.id, 0)

    def _spoken(self, row: Row) -> str:
        """Return a row for a screen reader."""
        if isinstance(row, str):
            return row
        if isinstance(row, ConversationFolder):
            state = "open" if row.is_open else "closed"
            state = "closed, with the current conversation" if self.hides_open(row) else state
            return f"Folder {row.name}, {counted(self.count_in(row), 'conversation')}, {state}"
        pinned = ", pinned" if row.is_pinned else ""
        state = ", answering" if row.is_running else ""
        state = ", needs you" if row.needs_user else state
        draft = ", draft" if row.has_draft else ""
        return f"Conversation {row.listed_title}{pinned}{state}{draft}, {when_text(row.updated_at)}"

    def is_inside_folder(self, conversation: Conversation) -> bool:
        return self._conversations.folders.of(conversation) is not None

    def hides_open(self, folder: ConversationFolder) -> bool:
        """Whether the open conversation has no row, because this folder is closed."""
        conversation = self.open_conversation
        return (
            not folder.is_open
            and conversation is not None
            and self._is_listed(conversation)
            and self._conversations.folders.of(conversation) == folder
        )

    def setData(self, index: Index, value: Any, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        """Rename a conversation or a folder; an empty name is ignored."""
        name = str(value).strip()
        if role != Qt.ItemDataRole.EditRole or not index.isValid() or not name:
            return False
        row = self._rows[index.row()]
        if isinstance(row, Conversation):
            self._conversations.rename(row, name)
        elif isinstance(row, ConversationFolder):
            self._conversations.folders.keep(replace(row, name=name))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = Qt.ItemFlag.ItemIsDropEnabled
        if not index.isValid() or isinstance(self._rows[index.row()], str):
            return flags
        flags |= Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsEditable
        if isinstance(self._rows[index.row()], Conversation):
            flags |= Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled
        return flags

    def at(self, row: int) -> Row:
        return self._rows[row]

    def conversations_at(self, indexes: Iterable[Index]) -> list[Conversation]:
        """Return the conversations of some rows, in the order of the list."""
        rows = sorted({index.row() for index in indexes if index.isValid()})
        return [row for row in map(self._rows.__getitem__, rows) if isinstance(row, Conversation)]

    def index_of(self, shown: Conversation | ConversationFolder) -> QModelIndex:
        """Return the index of a conversation or folder; an invalid index if it is not listed."""
        positions = (n for n, row in enumerate(self._rows) if row is shown)
        return self.index(next(positions, -1))

    # -- intents ---------------------------------------------------------------------------

    def mark_open(self, conversation: Conversation) -> None:
        """Note the open conversation, whose row is there though it is blank."""
        if conversation is not self.open_conversation:
            self.open_conversation = conversation
            self._refresh()

    def show_archive(self, shows_archive: bool) -> None:
        if self.shows_archive != shows_archive:
            self.shows_archive = shows_archive
            self._refresh()
            self.filtered.emit()

    def toggle(self, folder: ConversationFolder) -> None:
        self._conversations.folders.keep(replace(folder, is_open=not folder.is_open))

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        data = QMimeData()
        dragged = self.conversations_at(indexes)
        data.setData(_MIME, "\n".join(conversation.id for conversation in dragged).encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index
    ) -> bool:
        """Report a drop on a row; returns False so that the view keeps the dragged rows."""
        named = bytes(data.data(_MIME).data()).decode("utf-8", "replace").split("\n")
        dragged = [one for one in map(self._conversations.with_id, named) if one is not None]
        if dragged:
            self.dropped.emit(dragged, self.folder_at(parent))
        return False

    def folder_at(self, index: Index) -> ConversationFolder | None:
        """Return the folder of a row, or of the conversation in it."""
        row = self._rows[index.row()] if index.isValid() else None
        if isinstance(row, Conversation):
            return self._conversations.folders.of(row)
        return row if isinstance(row, ConversationFolder) else None

    def rows_of(self, folder: ConversationFolder | None) -> list[QModelIndex]:
        """Return the rows of a folder with its conversations, or all rows outside folders."""
        indexes = map(self.index, range(len(self._rows)))
        return [index for index in indexes if self.folder_at(index) == folder]

    # -- inside ----------------------------------------------------------------------------

    def _is_listed(self, conversation: Conversation) -> bool:
        is_begun = conversation.placement.folder_id and conversation is self.open_conversation
        if conversation.is_blank and not is_begun:
            return False  # *New Chat*, or that of its folder, opens it
        return conversation.placement.is_archived == self.shows_archive

    def _arranged(self) -> Iterator[Row]:
        folders = self._conversations.folders.all()
        inside: dict[str, list[Conversation]] = {folder.id: [] for folder in folders}
        loose: list[Conversation] = []
        for conversation in self._conversations.every():
            if self._is_listed(conversation):
                inside.get(conversation.placement.folder_id, loose).append(conversation)
        self._counts = {folder_id: len(members) for folder_id, members in inside.items()}
        for folder in folders:
            members = inside[folder.id]
            if members or not self.shows_archive:
                yield folder
                if folder.is_open:
                    yield from members
        section = ""
        name_section = section_namer(date.today())
        by_title = self._conversations.order == "title"
        by_creation = self._conversations.order in ("created", "oldest")
        for conversation in loose:
            when = conversation.created_at if by_creation else conversation.updated_at
            name = "A to Z" if by_title else name_section(when)
            name = "Pinned" if conversation.is_pinned else name
            if name != section:
                section = name
                yield section
            yield conversation

    def _refresh(self) -> None:
        counts, target = self._counts, list(self._arranged())
        if (target, self._counts) == (self._rows, counts):
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        keys = [_key(self._rows[index.row()]) for index in before]
        self._rows = target
        rows = {_key(row): number for number, row in enumerate(target)}
        self.changePersistentIndexList(before, [self.index(rows.get(key, -1)) for key in keys])
        self.layoutChanged.emit()

    def _repaint(self, conversation: Conversation) -> None:
        index = self.index_of(conversation)
        if index.isValid() != self._is_listed(conversation):
            self._refresh()
        elif index.isValid():
            self.dataChanged.emit(index, index)


def _key(row: Row) -> object:
    return ("folder", row.id) if isinstance(row, ConversationFolder) else getattr(row, "id", row)


def _name(row: Row) -> str:
    if isinstance(row, Conversation):
        return row.title
    return row if isinstance(row, str) else row.name


def section_namer(today: date) -> Callable[[float], str]:
    """Return a function from a Unix time to its section: a day, the last days, or a month."""
    midnight = datetime.combine(today, datetime.min.time())
    begins = ((midnight - timedelta(days)).timestamp() for days in (0, 1, 7))
    this_day, yesterday, last_days = begins
    months = QLocale()

    def name(unix_s: float) -> str:
        if unix_s >= this_day:
            return "Today"
        if unix_s >= last_days:
            return "Yesterday" if unix_s >= yesterday else "Previous 7 Days"
        then = time.localtime(max(0.0, unix_s))
        month = months.standaloneMonthName(then.tm_mon)
        return month if then.tm_year == today.year else f"{month} {then.tm_year}"

    return name


class ConversationDelegate(RowDelegate):
    """One line per conversation, folder and section; the time is below the pointer if it fits."""

    _hovered_px = 0  # the width of the row below the pointer

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(120, max(32, self.height_px(1)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        model = index.model()
        row = model.at(index.row()) if isinstance(model, SidebarRows) else None
        if isinstance(row, str):
            painter.setFont(self._font(0.9, QFont.Weight.DemiBold))
            painter.setPen(QColor(current_theme().colors.faint))
            area = self.ground(option.rect).adjusted(10, 0, -10, -4)
            painter.drawText(area, Qt.AlignmentFlag.AlignBottom, row)
            return
        is_hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        self._hovered_px = self._view.width() if is_hovered else 0
        if (
            isinstance(model, SidebarRows)
            and isinstance(row, ConversationFolder)
            and model.hides_open(row)
        ):
            option = QStyleOptionViewItem(option)
            option.state |= QStyle.StateFlag.State_Selected
        super().paint(painter, option, index)
        if is_hovered:
            area = self.more_area(option.rect)
            image = icons.pixmap("more", current_theme().colors.muted, _MORE_PX)
            painter.drawPixmap(area.center() - QPoint(_MORE_PX // 2 - 1, _MORE_PX // 2 - 1), image)

    def more_area(self, row: QRect) -> QRect:
        """Return where the row below the pointer has the button of its menu."""
        ground = self.ground(row)
        return ground.adjusted(ground.width() - _MORE_PX - 16, 0, 0, 0)

    def content(self, index: Index) -> RowContent | None:
        colors, model = current_theme().colors, index.model()
        if not isinstance(model, SidebarRows):
            return None
        row = model.at(index.row())
        if isinstance(row, str):
            return None
        kept_px = _MORE_PX + 8 if self._hovered_px else 0
        if isinstance(row, ConversationFolder):
            arrow = "chevron-down" if row.is_open else "chevron-right"
            name = RowPart(row.name, "", "folder", colors.muted)
            count = RowPart(str(model.count_in(row)))
            return RowContent(name, arrow, right=count, kept_px=kept_px)
        title = row.listed_title
        inset_px = 18 if model.is_inside_folder(row) else 0  # below the folder’s name
        right, when = RowPart(icon="pencil" if row.has_draft else ""), when_text(row.updated_at)
        needed_px = self._view.fontMetrics().horizontalAdvance(f"{title}{when}")
        # Beside a title and its time are the edges, a pin and the space between them.
        if not right.icon and needed_px + inset_px + kept_px + 64 <= self._hovered_px:
            right = RowPart(when)
        if row.needs_user:
            right = RowPart(NEEDS_YOU, colors.limit)
        elif row.is_running:
            right = RowPart(icon="mark", icon_color=colors.match)
        return RowContent(
            RowPart(title, "", "pin" if row.is_pinned and inset_px else "", colors.match),
            right=right,
            weight=QFont.Weight.Normal,
            inset_px=inset_px,
            kept_px=kept_px,
        )

    def updateEditorGeometry(
        self,
        editor: QWidget,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> None:
        editor.setAccessibleName("Conversation title")
        editor.setGeometry(self.ground(option.rect))


def when_text(updated_at: float) -> str:
    """Return a time of today, else a brief date."""
    moment = datetime.fromtimestamp(updated_at)
    if time.time() - updated_at < 60:
        return "now"
    if moment.date() == datetime.now().date():
        return format_time(updated_at)
    return format_day_briefly(updated_at)
