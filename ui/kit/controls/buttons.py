"""Buttons with our icons, which take the colors of the theme. Main thread."""

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton, QToolButton, QWidget

from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.words.tones import Tone

_CHIP_ICON = 16
_SWITCH = 38, 22

IconColor = Literal["text", "muted", "faint", "accent", "on_accent", "fault"]


class IconButton(QToolButton):
    """A small button with an icon; its tool tip is also its accessible name.

    Args:
        theme: The look.
        name: The name of the icon.
        says: What it does, in a few words.
        color: The icon's color in the theme.
        size: The icon's size in pixels.
    """

    def __init__(
        self, theme: Theme, name: str, says: str, color: IconColor = "muted", size: int = 18
    ) -> None:
        super().__init__()
        self._theme = theme
        self._name = name
        self._color = color
        self._size = size
        self.setAccessibleName(says)
        self.setToolTip(says)
        theme.changed.connect(self._tint)
        self._tint()

    def show_icon(self, name: str, says: str) -> None:
        """Show another icon with another name."""
        self._name = name
        self.setAccessibleName(says)
        self.setToolTip(says)
        self._tint()

    def _tint(self) -> None:
        colors = self._theme.colors
        color = getattr(colors, self._color)
        size = self._theme.px(self._size)
        self.setIconSize(QSize(size, size))
        self.setIcon(icons.icon(self._name, color, size, disabled=colors.disabled))


class ChipButton(QPushButton):
    """A rounded button with an icon and a few words; may be a toggle.

    Args:
        theme: The look.
        name: The name of the icon.
        text: The words.
        is_toggle: Whether it stays pressed.
    """

    def __init__(self, theme: Theme, name: str, text: str, is_toggle: bool = False) -> None:
        super().__init__()
        self._theme = theme
        self._name = name
        self._words = ""
        self._is_compact = False
        self.say(text, text)
        self.setProperty("kind", "chip")
        self.setCheckable(is_toggle)
        theme.changed.connect(self._tint)
        self.toggled.connect(self._tint)
        self._tint()

    def say(self, text: str, accessible_name: str) -> None:
        """Show other words."""
        self._words = f"\u2009{text}"  # Qt leaves too little between icon and text
        self.setText("" if self._is_compact else self._words)
        self.setAccessibleName(accessible_name)

    def set_compact(self, is_compact: bool) -> None:
        """Show only the icon, if there is no room for words."""
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            self.setText("" if is_compact else self._words)

    @property
    def saved_px(self) -> int:
        """The width that is saved by showing only the icon."""
        return self.fontMetrics().horizontalAdvance(self._words)

    def _tint(self) -> None:
        colors = self._theme.colors
        color = colors.match if self.isChecked() else colors.muted
        size = self._theme.px(_CHIP_ICON)
        self.setIconSize(QSize(size, size))
        self.setIcon(icons.icon(self._name, color, size))


class IconBadge(QLabel):
    """An icon in a soft square of its tone."""

    def __init__(self, theme: Theme, size: int = 36) -> None:
        super().__init__()
        self._theme = theme
        self._size = size
        self._name = "chat"
        self._tone = Tone.QUIET
        theme.changed.connect(self._fit)
        self._fit()

    def show_icon(self, name: str, tone: Tone) -> None:
        """Show another icon in another tone."""
        self._name, self._tone = name, tone
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the square and the icon."""
        color, soft = self._theme.colors.tone(self._tone)
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

    def _fit(self) -> None:
        size = self._theme.px(self._size)
        self.setFixedSize(size, size)
        self.update()


class ToggleSwitch(QAbstractButton):
    """An on/off switch.

    Args:
        theme: The look.
        says: Its accessible name.
        parent: Owns this object.
    """

    def __init__(self, theme: Theme, says: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setAccessibleName(says)
        self.setToolTip(says)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        theme.changed.connect(self._fit)
        self._fit()

    def sizeHint(self) -> QSize:
        """Return the size that goes with the text."""
        return QSize(*(self._theme.px(side) for side in _SWITCH))

    def _fit(self) -> None:
        self.setFixedSize(self.sizeHint())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the track and the knob."""
        colors = self._theme.colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(self.width() / _SWITCH[0], self.height() / _SWITCH[1])
        painter.setPen(QPen(QColor(colors.text), 1.2) if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.accent if self.isChecked() else colors.control))
        painter.drawRoundedRect(QRectF(1, 1, 36, 20), 10, 10)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.on_accent if self.isChecked() else colors.knob))
        painter.drawEllipse(QRectF(19 if self.isChecked() else 3, 3, 16, 16))
        painter.end()
