"""The list of models; each row has its action as a button at the right. Main thread."""

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
)
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyleOptionViewItem

from ui.kit import icons
from ui.kit.rows import Index, RowDelegate
from ui.kit.theme import current_theme
from ui.models.model_entries import (
    ACTION_LABELS,
    ENTRY,
    STATE,
    Action,
    Entry,
    EntryState,
    ModelEntries,
)


def button_area(ground: QRect, action: Action = "") -> QRect:
    """Return where the button on a row's ground is; long words have a wider one."""
    width = 128 if action in ("get_again", "show") else 88
    left = ground.right() - 8 - width
    return QRect(left, ground.center().y() - 12, width, 26)


class _EntryDelegate(RowDelegate):
    def __init__(self, view: "ModelList") -> None:
        super().__init__(view)
        self._list = view

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        entry = index.data(ENTRY)
        if isinstance(entry, Entry) and entry.note is not None:
            return QSize(120, self.height_px(1) + 8)
        content = self.content(index)
        lines = 3 if content is not None and content.detail.text else 2
        return QSize(120, self.height_px(lines) + 6)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        state = index.data(STATE)
        if not isinstance(state, EntryState):
            option.rect.adjust(0, 8, 2, 0)  # its note ends where the buttons do
            super().paint(painter, option, index)
            return
        colors, row = current_theme().colors, QRect(option.rect)
        ground = self.ground(row)
        painter.save()
        icons.draw_row_ground(
            painter,
            ground,
            option.state,
            colors,
            has_focus=self._list.hasFocus(),
        )
        painter.restore()
        button = button_area(ground, state.action)
        kept_px = row.right() - button.left() + 4
        option.rect.adjust(0, 3, -kept_px, -3)
        super().paint(painter, option, index)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if state.percent is not None:
            track = QRectF(row.left() + 18, row.bottom() - 6, row.width() - kept_px - 36, 3)
            painter.setBrush(QColor(colors.sunken if colors.is_strong else colors.line))
            painter.drawRoundedRect(track, 1.5, 1.5)
            track.setWidth(track.width() * state.percent / 100)
            painter.setBrush(QColor(colors.accent))
            painter.drawRoundedRect(track, 1.5, 1.5)
        if state.action:
            self._draw_button(painter, button, state)
        painter.restore()

    def _draw_button(self, painter: QPainter, area: QRect, state: EntryState) -> None:
        colors, is_hovered = current_theme().colors, area.contains(self._list.pointer)
        ink, ground = colors.text, colors.hover if is_hovered else colors.raised
        if state.action == "get":
            ink = colors.match
        elif state.action == "loaded":
            ink, ground = colors.tone("done")
        painter.setBrush(QColor(ground))
        is_lined = state.action != "loaded" or is_hovered
        painter.setPen(QColor(colors.strong_line) if is_lined else Qt.PenStyle.NoPen)
        radius = area.height() / 2
        painter.drawRoundedRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        painter.setPen(QColor(ink))
        painter.setFont(self._font(0.95, painter.font().weight().Medium))
        words = area.adjusted(0, 0, -14, 0) if state.action == "loaded" else area
        painter.drawText(words, Qt.AlignmentFlag.AlignCenter, ACTION_LABELS[state.action])
        if state.action == "loaded":
            chevron = QRectF(area.right() - 22, area.center().y() - 5, 12, 12)
            icons.draw(painter, chevron, "chevron-down", ink)


class ModelList(QListView):
    """Shows the entries; Return and a click on a row's button do its action."""

    picked = Signal()
    action_requested = Signal(object)  # Entry
    menu_requested = Signal(object, QPoint)  # Entry, position on the screen

    def __init__(self, entries: ModelEntries) -> None:
        super().__init__()
        self.entries = entries
        self.pointer = QPoint(-1, -1)
        self._pressed: Entry | None = None
        self._kept: Entry | None = None
        self._top_px = 0
        self.setObjectName("conversation_list")
        self.setAccessibleName("Models")
        self.setModel(entries)
        self._delegate = _EntryDelegate(self)
        self.setItemDelegate(self._delegate)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        entries.modelAboutToBeReset.connect(self._keep_position)
        entries.modelReset.connect(self._pick_again)
        entries.dataChanged.connect(self.picked)

    @property
    def current(self) -> Entry | None:
        entry = self.currentIndex().data(ENTRY)
        return entry if isinstance(entry, Entry) else None

    def pick(self, entry: Entry | None) -> None:
        """Choose the row of an entry, or else the first model."""
        row = self.entries.row_of(entry)
        self.setCurrentIndex(self.entries.index(row) if row >= 0 else QModelIndex())

    def currentChanged(self, now: Index, before: Index) -> None:
        super().currentChanged(now, before)
        self.picked.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        entry = self.current
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and entry is not None:
            self._run(entry)
            event.accept()
            return
        super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        index, entry = self.currentIndex(), self.current
        is_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        if entry is not None and (is_key or self.indexAt(event.pos()) == index):
            below = self.viewport().mapToGlobal(self.visualRect(index).bottomLeft())
            self.menu_requested.emit(entry, below if is_key else event.globalPos())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.pointer = event.position().toPoint()
        self.viewport().update(self.visualRect(self.indexAt(self.pointer)))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointer = QPoint(-1, -1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        is_left = event.button() == Qt.MouseButton.LeftButton
        self._pressed = self._button_at(event.position().toPoint()) if is_left else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        pressed, self._pressed = self._pressed, None
        entry = self._button_at(event.position().toPoint())
        # The rows may have changed since the button was pressed.
        if entry is not None and pressed is not None and entry.key == pressed.key:
            self._run(entry)

    def _run(self, entry: Entry) -> None:
        """Run the action of the current row, or show its menu where the button is one."""
        if self.entries.state(entry).action == "loaded":
            corner = button_area(self._ground(self.currentIndex())).bottomLeft()
            self.menu_requested.emit(entry, self.viewport().mapToGlobal(corner))
        else:
            self.action_requested.emit(entry)

    def _ground(self, index: Index) -> QRect:
        return self._delegate.ground(self.visualRect(index))

    def _button_at(self, position: QPoint) -> Entry | None:
        """Return the entry whose button is at a position."""
        index = self.indexAt(position)
        entry = index.data(ENTRY)
        if not isinstance(entry, Entry) or entry.note is not None:
            return None
        action = self.entries.state(entry).action
        is_inside = button_area(self._ground(index), action).contains(position)
        return entry if is_inside and action else None

    def _keep_position(self) -> None:
        self._kept, self._top_px = self.current, self.verticalScrollBar().value()

    def _pick_again(self) -> None:
        """Keep the current entry where the new rows have it; otherwise the first one."""
        self.pick(self._kept)
        self.verticalScrollBar().setValue(self._top_px)
        if self.current is None:
            self.picked.emit()
