"""Buttons with our icons, tinted anew when the theme changes. Main thread."""

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton, QToolButton, QWidget

from ui import icons
from ui.theme import Theme
from ui.wording import Tone

Ink = Literal["text", "muted", "faint", "accent", "on_accent", "fault"]


class IconButton(QToolButton):
    """A small button that is an icon; its name is its tool tip and what a screen reader says."""

    def __init__(
        self, theme: Theme, name: str, says: str, ink: Ink = "muted", size: int = 18
    ) -> None:
        super().__init__()
        self._theme = theme
        self._name = name
        self._ink = ink
        self._size = size
        self.setIconSize(QSize(size, size))
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
        ink = getattr(colors, self._ink)
        self.setIcon(icons.icon(self._name, ink, self._size, disabled=colors.strong_line))


class ChipButton(QPushButton):
    """A rounded button with an icon and a few words; may be a toggle."""

    def __init__(self, theme: Theme, name: str, text: str, is_toggle: bool = False) -> None:
        super().__init__()
        self._theme = theme
        self._name = name
        self._words = ""
        self._is_compact = False
        self.say(text, text)
        self.setProperty("kind", "chip")
        self.setCheckable(is_toggle)
        self.setIconSize(QSize(16, 16))
        theme.changed.connect(self._tint)
        self.toggled.connect(self._tint)
        self._tint()

    def say(self, text: str, accessible_name: str) -> None:
        """Show other words."""
        self._words = f"\u2009{text}"  # Qt leaves too little between icon and text
        self.setText("" if self._is_compact else self._words)
        self.setAccessibleName(accessible_name)

    def set_compact(self, is_compact: bool) -> None:
        """Show the icon alone, where there is no room for words."""
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            self.setText("" if is_compact else self._words)

    @property
    def saved_px(self) -> int:
        """How much narrower it is, or would be, as an icon alone."""
        return self.fontMetrics().horizontalAdvance(self._words)

    def _tint(self) -> None:
        colors = self._theme.colors
        ink = colors.match if self.isChecked() else colors.muted
        self.setIcon(icons.icon(self._name, ink, 16))


class IconBadge(QLabel):
    """An icon in a soft square of its tone."""

    def __init__(self, theme: Theme, size: int = 36) -> None:
        super().__init__()
        self._theme = theme
        self._size = size
        self._name = "chat"
        self._tone = Tone.QUIET
        self.setFixedSize(size, size)
        theme.changed.connect(self.update)

    def show_icon(self, name: str, tone: Tone) -> None:
        """Show another icon in another tone."""
        self._name, self._tone = name, tone
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the square and the icon."""
        ink, soft = self._theme.colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(soft))
        painter.drawRoundedRect(self.rect(), self._size * 0.28, self._size * 0.28)
        inner = round(self._size * 0.58)
        image = icons.pixmap(self._name, ink, inner, self.devicePixelRatioF() * 2)
        corner = (self._size - inner) / 2
        painter.drawPixmap(
            QRectF(corner, corner, inner, inner), image, QRectF(0, 0, image.width(), image.height())
        )
        painter.end()


class ToggleSwitch(QAbstractButton):
    """An on/off switch."""

    def __init__(self, theme: Theme, says: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setAccessibleName(says)
        self.setToolTip(says)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedSize(38, 22)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the fixed size."""
        return QSize(38, 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the track and the knob."""
        colors = self._theme.colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors.text), 1.2) if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.accent if self.isChecked() else colors.strong_line))
        painter.drawRoundedRect(QRectF(1, 1, 36, 20), 10, 10)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor("#ffffff"))
        painter.drawEllipse(QRectF(19 if self.isChecked() else 3, 3, 16, 16))
        painter.end()
