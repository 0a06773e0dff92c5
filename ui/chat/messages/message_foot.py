"""The line below a message: why an answer ended, and what can be done with it. Main thread."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from ui.chat.composer.attachments import AttachedFile
from ui.chat.composer.message_editor import EditedInPlace
from ui.kit import icons
from ui.kit.buttons import IconButton
from ui.kit.labels import rescale
from ui.kit.layouts import row
from ui.kit.theme import current_theme, sized_font
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.passages import Excerpt
from ui.words import Tone

_GAP, _ICON_PX, _PAD_PX = 6, 15, 10
_WRAPPED = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap
_SEPARATOR = " · "
_ELIDE = Qt.TextElideMode.ElideRight
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}


class ReasonLine(QAbstractButton):
    """Why an answer ended, and its model and figures while the row's buttons are drawn.

    A button that shows the run in the stop panel.

    Attributes:
        link: What can be done about it; after the reason, or below it if there is no room.
        row: The buttons at the end of the line.
    """

    def __init__(self, link: QPushButton) -> None:
        super().__init__()
        self.link = link
        self.link.setParent(self)
        self.row: MessageActions | None = None
        self._figures: tuple[str, ...] = ()
        self._is_clicked = False
        self._word = ""
        self._icon = "check"
        self._tone: Tone = "quiet"
        self.setFont(sized_font(self.font(), 13))
        self.link.setFont(self.font())
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves no ring around the line
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setMinimumWidth(40)

    def show_reason(
        self, word: str, figures: Sequence[str], icon: str, tone: Tone, more: Sequence[str] = ()
    ) -> None:
        """Show an end and its main figures; the others are in the tool tip."""
        self._word, self._icon, self._tone = word, icon, tone
        self._figures = tuple(figures)
        spoken = _SEPARATOR.join(filter(None, (word, *figures, *more)))
        self.setText(spoken)
        self.setAccessibleName(f"{spoken}. Show why it stopped")
        self.setToolTip("\n".join(filter(None, (_SEPARATOR.join(more), "Show why it stopped"))))
        self.updateGeometry()
        self.place_link()
        self.update()

    def place_link(self) -> None:
        """Move the link to the end of the reason, or below it."""
        width, line = self.link.sizeHint().width(), self._last_line
        left = _ICON_PX + _GAP if line.top() else self.reason_px + self._separator_px
        left -= (width - self._link_px) // 2  # the button's padding
        # As high as the line, or the texts would have two base lines.
        self.link.setGeometry(left, line.top(), width, line.height())

    def heightForWidth(self, width: int) -> int:
        link_px = self.fontMetrics().height() + _PAD_PX if self._is_link_below(width) else 0
        return self._reason_height(width) + link_px

    def _reason_height(self, width: int) -> int:
        """Return the height of the reason, which wraps where it has no room."""
        area = QRect(0, 0, max(40, width - _ICON_PX - _GAP), 10_000)
        bounds = self.fontMetrics().boundingRect(area, _WRAPPED, self._word or " ")
        return bounds.height() + _PAD_PX

    def _is_link_below(self, width: int) -> bool:
        return bool(self._word) and not self.link.isHidden() and self.line_px > width

    @property
    def _last_line(self) -> QRect:
        width = self.width()
        top = self._reason_height(width) if self._is_link_below(width) else 0
        return QRect(0, top, self.width(), self.height() - top)

    @property
    def reason_px(self) -> int:
        """The width of the reason on one line."""
        word = self.fontMetrics().horizontalAdvance(self._word)
        return _ICON_PX + _GAP + word if self._word else 0

    @property
    def line_px(self) -> int:
        """The width of the reason with its link on one line."""
        link_px = 0 if self.link.isHidden() else self._separator_px + self.link.sizeHint().width()
        return self.reason_px + link_px

    @property
    def _link_px(self) -> int:
        return self.link.fontMetrics().horizontalAdvance(self.link.text())

    @property
    def _separator_px(self) -> int:
        return self.fontMetrics().horizontalAdvance(_SEPARATOR) if self._word else 0

    def sizeHint(self) -> QSize:
        figures = self.fontMetrics().horizontalAdvance(_SEPARATOR.join(self._figures)) + _GAP
        width = self.reason_px + self._separator_px + self.link.sizeHint().width() + figures
        return QSize(width, self.heightForWidth(width))

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Frame the line only for the keyboard: a click shows its effect elsewhere."""
        self._is_clicked = event.reason() == Qt.FocusReason.MouseFocusReason
        super().focusInEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.place_link()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colors, left = current_theme().colors, 0
        line = self._last_line
        if self._word:
            first = QRect(0, 0, self.width(), line.top() or self.height())
            color = colors.tone(self._tone)[0]
            top = (self.fontMetrics().height() + _PAD_PX - _ICON_PX) / 2  # of the first line
            icons.draw(painter, QRectF(0, top, _ICON_PX, _ICON_PX), self._icon, color)
            ink = colors.text if self.underMouse() else colors.muted
            painter.setPen(QColor(color if self._tone == "fault" else ink))
            painter.drawText(first.adjusted(_ICON_PX + _GAP, 0, 0, 0), _WRAPPED, self._word)
            left = self.reason_px
        if not self.link.isHidden():
            if self._word and not line.top():
                self._draw_text(painter, line, left, _SEPARATOR, colors.faint)
            link = self.link.geometry()
            left = link.left() + (link.width() + self._link_px) // 2
        if self._figures and self.row is not None and self.row.are_drawn:
            self._draw_figures(painter, line, left)
        if self.hasFocus() and not self._is_clicked:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(colors.accent), 1.4))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 5, 5)
        painter.end()

    def _draw_figures(self, painter: QPainter, line: QRect, left: int) -> None:
        """Draw the figures that have room, each whole; the model alone may be cut."""
        for count in range(len(self._figures), 0, -1):
            text = (_SEPARATOR if left else "") + _SEPARATOR.join(self._figures[:count])
            is_alone = count == 1 and not left
            if is_alone or left + self.fontMetrics().horizontalAdvance(text) <= self.width():
                self._draw_text(painter, line, left, text, current_theme().colors.faint)
                break

    def _draw_text(self, painter: QPainter, line: QRect, left: int, text: str, color: str) -> int:
        """Draw words from a place to the end of a line; return where the next part begins."""
        area = line.adjusted(left, 0, 0, 0)
        shown = self.fontMetrics().elidedText(text, _ELIDE, max(0, area.width()))
        painter.setPen(QColor(color))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, shown)
        return left + self.fontMetrics().horizontalAdvance(shown)


# The buttons of a message are drawn only while the pointer or the focus is there, and always below
# the last answer. They are one stop of Tab, and Left and Right go from one to another; screen
# readers reach them at all times.


class MessageActions(QWidget):
    """A row of buttons."""

    version_stepped = Signal(int)

    def __init__(self, message_view: QWidget, before: Sequence[QAbstractButton] = ()) -> None:
        super().__init__()
        self._message_view = message_view
        self._before = before
        self.is_last = False
        self._buttons: list[_ActionButton] = []
        self.earlier = _ActionButton(self, "chevron-left", "Earlier version", "Ctrl+[")
        self.later = _ActionButton(self, "chevron-right", "Later version", "Ctrl+]")
        self.version = _VersionLabel(self)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._layout = row(spacing=2, on=self)
        for part in (self.earlier, self.version, self.later):
            self._layout.addWidget(part)
            part.hide()
        self.earlier.clicked.connect(lambda: self.version_stepped.emit(-1))
        self.later.clicked.connect(lambda: self.version_stepped.emit(1))
        for watched in (message_view, *before, self.earlier, self.later):
            watched.installEventFilter(self)

    @property
    def are_drawn(self) -> bool:
        focused = QApplication.focusWidget()
        has_focus = focused is not None and self._message_view.isAncestorOf(focused)
        return self.is_last or self._message_view.underMouse() or has_focus

    def mark_last(self, is_last: bool) -> None:
        """Draw the buttons at all times below the last answer."""
        self.is_last = is_last
        self.repaint_all()

    def add(
        self, icon: str, accessible_name: str, keys: str = "", *, is_always_drawn: bool = False
    ) -> IconButton:
        """Add a button before the switch of versions."""
        button = _ActionButton(self, icon, accessible_name, keys, is_always_drawn=is_always_drawn)
        self._buttons.append(button)
        button.installEventFilter(self)
        self._layout.insertWidget(self._layout.indexOf(self.earlier), button)
        return button

    def show_versions(self, number: int, count: int) -> None:
        for part in (self.earlier, self.version, self.later):
            part.setVisible(count > 1)
        self.version.setText(f"{number}/{count}")
        self.version.setAccessibleName(f"Version {number} of {count}")
        self.earlier.setEnabled(number > 1)
        self.later.setEnabled(number < count)
        self.stop_at()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        kind = event.type()
        if isinstance(watched, QAbstractButton):
            if kind == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
                return self._take_key(watched, event.key())
            if kind == QEvent.Type.FocusIn:
                self.stop_at(watched)
        if kind in (QEvent.Type.Enter, QEvent.Type.Leave, QEvent.Type.FocusOut):
            self.repaint_all()
        return False

    def repaint_all(self) -> None:
        for part in (*self._before, *self.findChildren(QWidget)):
            part.update()

    def stop_at(self, target: QAbstractButton | None = None) -> None:
        """Let Tab stop at one button of the row: at the wanted one, or else where it stopped."""
        usable = self._usable()
        before = (button for button in usable if button.focusPolicy() & Qt.FocusPolicy.TabFocus)
        stop = target or next(before, None) or next(iter(usable), None)
        for button in self._every():
            policy = Qt.FocusPolicy.StrongFocus if button is stop else Qt.FocusPolicy.NoFocus
            if button.focusPolicy() != policy:
                button.setFocusPolicy(policy)
        self.repaint_all()

    def _take_key(self, button: QAbstractButton, key: int) -> bool:
        """Go from a button to the one beside it; return whether the key was Left or Right."""
        step = _STEPS.get(Qt.Key(key), 0)
        usable = self._usable()
        if step and button in usable:
            usable[(usable.index(button) + step) % len(usable)].setFocus()
        return bool(step)

    def _every(self) -> list[QAbstractButton]:
        return [*self._before, *self._buttons, self.earlier, self.later]

    def _usable(self) -> list[QAbstractButton]:
        return [button for button in self._every() if not button.isHidden() and button.isEnabled()]


class _ActionButton(IconButton):
    """A button that is drawn only while its row says so."""

    def __init__(
        self,
        row: MessageActions,
        icon: str,
        accessible_name: str,
        keys: str = "",
        *,
        is_always_drawn: bool = False,
    ) -> None:
        self._row = row
        self._is_always_drawn = is_always_drawn
        super().__init__(icon, accessible_name, size=16, keys=keys)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._is_always_drawn or self._row.are_drawn:
            super().paintEvent(event)


class _VersionLabel(QLabel):
    """The number of a version, drawn with the buttons around it."""

    def __init__(self, row: MessageActions) -> None:
        super().__init__()
        self._row = row
        self.setProperty("role", "muted")
        rescale(self, 0.9)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._row.are_drawn:
            super().paintEvent(event)


class ShownMessage(EditedInPlace):
    """A message with its files and its row of buttons.

    A subclass adds its own buttons, and then those of every message.
    """

    unpin_requested = Signal()
    menu_requested = Signal(QPoint)  # position on the screen
    picture_requested = Signal(object)  # Attachment
    reading_requested = Signal(str, str)  # id of a document, Reading

    def __init__(
        self,
        message: ConversationMessage,
        files: Iterable[tuple[Attachment, Excerpt | None]],
        before: Sequence[QAbstractButton],
        parent: QWidget | None,
    ) -> None:
        super().__init__(parent)
        self.message = message
        self.files = [self.card_of(file, excerpt) for file, excerpt in files]
        self.action_row = MessageActions(self, before)

    def card_of(self, file: Attachment, excerpt: Excerpt | None) -> AttachedFile:
        card = AttachedFile(file, excerpt)
        card.picture_requested.connect(self.picture_requested)
        card.reading_requested.connect(self.reading_requested)
        return card

    def add_common_buttons(self, what: str) -> None:
        self.more = self.action_row.add("more", f"More actions for this {what}")
        self.more.clicked.connect(
            lambda: self.menu_requested.emit(self.more.mapToGlobal(QPoint(0, self.more.height())))
        )
        self.pinned = self.action_row.add(
            "pin", "Pinned: sent with every question. Unpin", is_always_drawn=True
        )
        self.pinned.setVisible(self.message.is_pinned)
        self.pinned.clicked.connect(self.unpin_requested)

    def show_pictures(self, folder: Path) -> None:
        for file in self.files:
            file.show_picture(folder)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_requested.emit(event.globalPos())
        event.accept()
