"""Paints a row of the conversation list: title, time, first words. Main thread."""

import time
from datetime import datetime

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.chat.history.conversation_row import ConversationRole
from ui.chat.history.sidebar_rows import SidebarRows
from ui.kit.look import icons
from ui.kit.look.row_ground import draw_row_ground
from ui.kit.look.theme import Theme
from ui.records.conversations import ConversationFolder
from ui.words.days import day_words

_HEIGHT_LINES = 2.0
_PIN_PX = 13
_ARROW_PX = 15
_FOLDER_PX = 14
_ELIDE = Qt.TextElideMode.ElideRight


class ConversationDelegate(QStyledItemDelegate):
    """Draws two lines per row; the open conversation is a raised card."""

    def __init__(self, theme: Theme, view: QWidget) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view
        theme.changed.connect(self._repaint)

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        """Return the height of two lines, and of one for a folder."""
        line = self._view.fontMetrics().lineSpacing()
        if index.data(SidebarRows.folder_role) is not None:
            return QSize(120, line + 16)
        return QSize(120, round(line * _HEIGHT_LINES) + 22)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """Draw the row."""
        colors = self._theme.colors
        inset = _FOLDER_PX * int(index.data(SidebarRows.depth_role) or 0)
        area: QRect = option.rect.adjusted(8 + self._theme.gap(inset), 1, -8, -1)
        state: QStyle.StateFlag = option.state
        painter.save()
        chosen = colors.bubble if colors.is_dark else colors.raised
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
        index: QModelIndex | QPersistentModelIndex,
        folder: ConversationFolder,
        *,
        is_current: bool,
    ) -> None:
        """Draw a folder: an arrow, its name, and the number of its conversations."""
        colors = self._theme.colors
        if is_current or self._takes(folder):
            painter.setPen(QColor(colors.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        size = self._theme.px(_ARROW_PX)
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
        index: QModelIndex | QPersistentModelIndex,
        is_running: bool,
    ) -> None:
        colors = self._theme.colors
        bold, small = QFont(self._view.font()), QFont(self._view.font())
        bold.setWeight(QFont.Weight.Medium)
        small.setPointSizeF(small.pointSizeF() * 0.9)
        bold_metrics, small_metrics = QFontMetrics(bold), QFontMetrics(small)
        updated_at = index.data(ConversationRole.UPDATED_AT)
        when = "Answering…" if is_running else when_words(updated_at)
        when_width = small_metrics.horizontalAdvance(when)
        half = inner.height() // 2
        top = QRect(inner.left(), inner.top(), inner.width(), half)
        painter.setFont(bold)
        painter.setPen(QColor(colors.text))
        title = str(index.data(ConversationRole.TITLE))
        room = inner.width() - when_width - 10
        if index.data(ConversationRole.IS_PINNED):
            size = self._theme.px(_PIN_PX)
            pin = icons.pixmap("pin", colors.match, size)
            painter.drawPixmap(top.left(), top.center().y() - size // 2, pin)
            room -= size + 4
            top = top.adjusted(size + 4, 0, 0, 0)
        title = bold_metrics.elidedText(title, _ELIDE, room)
        painter.drawText(top, Qt.AlignmentFlag.AlignVCenter, title)
        painter.setFont(small)
        painter.setPen(QColor(colors.match if is_running else colors.faint))
        painter.drawText(top, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, when)
        painter.setPen(QColor(colors.muted))
        bottom = QRect(inner.left(), inner.top() + half, inner.width(), inner.height() - half)
        if tags := " ".join(f"#{tag}" for tag in index.data(ConversationRole.TAGS) or ()):
            # The tags leave half of the line to the preview.
            shown = small_metrics.elidedText(tags, _ELIDE, bottom.width() // 2)
            painter.setPen(QColor(colors.link))
            painter.drawText(bottom, Qt.AlignmentFlag.AlignVCenter, shown)
            bottom = bottom.adjusted(small_metrics.horizontalAdvance(f"{shown} "), 0, 0, 0)
            painter.setPen(QColor(colors.muted))
        preview = str(index.data(ConversationRole.PREVIEW)) or "No messages yet"
        preview = small_metrics.elidedText(preview, _ELIDE, bottom.width())
        painter.drawText(bottom, Qt.AlignmentFlag.AlignVCenter, preview)

    def updateEditorGeometry(
        self,
        editor: QWidget,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
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
        return moment.strftime("%H:%M")
    return day_words(updated_at)
