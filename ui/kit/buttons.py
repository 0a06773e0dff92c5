"""Buttons, check boxes and lists to choose from, in the colors of the theme. Main thread."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QKeySequence, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QFrame,
    QLabel,
    QPushButton,
    QToolButton,
    QWidget,
)

from ui.kit import icons
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import WrappedLabel, label, show_text
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import COPIED_MS, copy_text
from ui.kit.motion import fade
from ui.kit.theme import current_theme
from ui.kit.windows import round_corners
from ui.words import Tone

IconColor = Literal["text", "muted", "faint", "accent", "on_accent", "fault"]


def with_keys(accessible_name: str, keys: str) -> str:
    """Return a tooltip with a shortcut as this system writes it; without keys, the words alone."""
    native = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{accessible_name} ({native})" if native else accessible_name


def push_button(text: str, accessible_name: str = "", kind: str = "") -> QPushButton:
    """Return a button; the style sheet draws each kind in its way: "link", "fold", "primary"."""
    button = QPushButton(text)
    if accessible_name:
        button.setAccessibleName(accessible_name)
    if kind:
        button.setProperty("kind", kind)
    return button


def fold_button(text: str) -> QPushButton:
    """Return a heading with an arrow; it is checked while the part below it is unfolded."""
    button = push_button(text, kind="fold")
    button.setCheckable(True)
    button.setIconSize(QSize(14, 14))
    button.setIcon(themed_icon("chevron-right", checked_name="chevron-down"))
    return button


class IconButton(QToolButton):
    """A small button with an icon; its tooltip is its accessible name, and the keys that do it."""

    def __init__(
        self,
        name: str,
        accessible_name: str,
        color: IconColor = "muted",
        size: int = 18,
        keys: str = "",
    ) -> None:
        super().__init__()
        self._color = color
        self.setIconSize(QSize(size, size))
        self.show_icon(name, accessible_name, keys)

    def show_icon(self, name: str, accessible_name: str, keys: str = "") -> None:
        self.setAccessibleName(accessible_name)
        self.setToolTip(with_keys(accessible_name, keys))
        self.setIcon(themed_icon(name, self._color))


class ChipButton(QPushButton):
    """A rounded button with an icon and a few words; may be a toggle."""

    def __init__(self, name: str, text: str, is_toggle: bool = False) -> None:
        super().__init__()
        self._text = ""
        self.is_compact = self._has_dot = False
        self.set_label(text, text)
        self.setProperty("kind", "chip")
        self.setCheckable(is_toggle)
        self.setIconSize(QSize(16, 16))
        self.setIcon(themed_icon(name, checked_color="match"))

    def set_label(self, text: str, accessible_name: str, *, has_dot: bool = False) -> None:
        self._has_dot = has_dot
        space = "\u2003" if has_dot else ""
        # Qt leaves too little between icon and text.
        self._text = f"\u2009{text}{space}" if text else ""
        self.setText("" if self.is_compact else self._text)
        self.setAccessibleName(accessible_name)

    def set_compact(self, is_compact: bool) -> None:
        """Show only the icon, if there is no room for words."""
        if is_compact != self.is_compact:
            self.is_compact = is_compact
            self.setText("" if is_compact else self._text)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the dot of settings that differ after the words."""
        super().paintEvent(event)
        if self._has_dot and not self.is_compact:
            painter = QPainter(self)
            icon = icons.pixmap("mark", current_theme().colors.accent, 16, self.devicePixelRatioF())
            painter.drawPixmap(self.width() - 24, (self.height() - 16) // 2, icon)
            painter.end()

    @property
    def saved_px(self) -> int:
        """The width that is saved by showing only the icon."""
        return self.fontMetrics().horizontalAdvance(self._text)


class IconBadge(QLabel):
    """An icon in a soft square of its tone."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._name = "chat"
        self._tone: Tone = "quiet"
        self.setFixedSize(size, size)

    def show_icon(self, name: str, tone: Tone) -> None:
        self._name, self._tone = name, tone
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        color, soft = current_theme().colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(soft))
        size = self.width()
        painter.drawRoundedRect(self.rect(), size * 0.28, size * 0.28)
        inner = round(size * 0.58)
        corner = (size - inner) / 2
        icons.draw(painter, QRectF(corner, corner, inner, inner), self._name, color)
        painter.end()


class ToggleSwitch(QAbstractButton):
    """An on/off switch."""

    def __init__(self, accessible_name: str) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setAccessibleName(accessible_name)
        self.setToolTip(accessible_name)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedSize(38, 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = current_theme().colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setOpacity(1.0 if self.isEnabled() else 0.4)
        # Where all lines are strong, a switch that is off is an outline: on and off would be alike.
        is_hollow = colors.is_strong and not self.isChecked()
        has_line = self.hasFocus() or is_hollow
        painter.setPen(QPen(QColor(colors.text), 1.2) if has_line else Qt.PenStyle.NoPen)
        off = colors.raised if is_hollow else colors.control
        is_lit = self.isChecked() and self.isEnabled()
        painter.setBrush(QColor(colors.accent if is_lit else off))
        painter.drawRoundedRect(QRectF(1, 1, 36, 20), 10, 10)
        painter.setPen(Qt.PenStyle.NoPen)
        knob = colors.text if is_hollow else colors.knob
        painter.setBrush(QColor(colors.on_accent if self.isChecked() else knob))
        painter.drawEllipse(QRectF(19 if self.isChecked() else 3, 3, 16, 16))
        painter.end()


def copy_button(accessible_name: str, text: Callable[[], str | None]) -> IconButton:
    """Return a button that copies what ``text`` returns, unless that is None or empty."""
    button = IconButton("copy", accessible_name)
    copy_on_click(button, text)
    return button


def copy_on_click(button: IconButton, text: Callable[[], str | None]) -> None:
    """Let a button copy what ``text`` returns, and show a check mark for a moment."""
    accessible_name = button.accessibleName()

    def copy() -> None:
        if copied := text():
            copy_text(copied)
            button.show_icon("tick", "Copied")
            QTimer.singleShot(COPIED_MS, button, partial(button.show_icon, "copy", accessible_name))

    button.clicked.connect(copy)


class Choice(QComboBox):
    """Lets the user choose one of several values, each shown as a few words."""

    def __init__(self, accessible_name: str, choices: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.setProperty("kind", "choice")
        self.setAccessibleName(accessible_name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        for value, text in choices:
            self.addItem(text, value)

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        round_corners(self.view().window())
        super().showPopup()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the parent: a choice must not change by scrolling past it."""
        event.ignore()

    def choose(self, value: str) -> None:
        self.setCurrentIndex(self.findData(value))


class EmptyState(QWidget):
    """A sentence in the middle of an empty part, with the next steps below."""

    def __init__(self, *steps: QWidget, icon: str = "") -> None:
        super().__init__()
        badge = IconBadge(48)
        badge.show_icon(icon or "report", "quiet")
        badge.setVisible(bool(icon))
        self.title = label("", "title", 1.3, is_wrapped=True)
        self.detail = label("", "muted", is_wrapped=True)
        for text in (self.title, self.detail):
            text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        below = row(STRETCH, *steps, STRETCH, spacing=8)
        column(
            *(STRETCH, (badge, 0, Qt.AlignmentFlag.AlignHCenter), self.title, self.detail),
            *(8, below, STRETCH),
            spacing=8,
            on=self,
        )

    def show_text(self, title: str, detail: str) -> None:
        self.title.setText(title)
        show_text(self.detail, detail)


class UndoBar(QFrame):
    """A message and the button "Undo", hidden until there is something to undo."""

    def __init__(self) -> None:
        super().__init__()
        card = QFrame()
        card.setObjectName("undo_bar")
        self.message = WrappedLabel()
        self.button = push_button("Undo", "Undo")
        row((self.message, 1), self.button, margins=(12, 6, 6, 6), on=card)
        column(card, margins=8, on=self)
        self._timer = QTimer(self, singleShot=True, interval=10_000)
        self._timer.timeout.connect(lambda: fade(self, is_in=False, then=self.hide))
        self._undo: Callable[[], object] = self.hide
        self.button.clicked.connect(self._run)
        self.hide()

    def offer(self, text: str, undo: Callable[[], object]) -> None:
        """Name an action, and offer to undo it for a while."""
        self._undo = undo
        self.message.setText(text)
        self.button.setAccessibleName(f"Undo: {text}")
        self.show()
        fade(self, is_in=True)
        self._timer.start()

    def _run(self) -> None:
        self.hide()
        self._undo()
