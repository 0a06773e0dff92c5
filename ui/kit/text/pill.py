"""A pill that shows a state: an icon, a word and a color. Main thread."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.text.labels import rescale
from ui.words.tones import Tone

_ICON = 14
_PAD = 9
_GAP = 5


class StatusPill(QWidget):
    """Shows one state; its accessible name contains the state.

    Args:
        theme: The look.
        says: The first part of its accessible name.
        parent: The widget that it belongs to.
    """

    def __init__(self, theme: Theme, says: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._says = says
        self._word = ""
        self._icon = "mark"
        self._tone = Tone.QUIET
        rescale(self, 0.92)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._fit)

    @property
    def word(self) -> str:
        """The state in a word."""
        return self._word

    def show_state(self, word: str, icon: str, tone: Tone) -> None:
        """Show another state.

        Args:
            word: The state in a word or two.
            icon: The name of the icon.
            tone: The tone, which gives the color.
        """
        self._word, self._icon, self._tone = word, icon, tone
        self.setAccessibleName(f"{self._says}: {word}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for icon and word."""
        metrics = self.fontMetrics()
        left, right = self._sides()
        width = metrics.horizontalAdvance(self._word) + left + right
        return QSize(width, metrics.height() + self._theme.gap(8))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the pill."""
        color, soft = self._theme.colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(soft))
        radius = self.height() / 2
        painter.drawRoundedRect(QRectF(self.rect()), radius, radius)
        size = self._theme.px(_ICON)
        left, right = self._sides()
        place = QRectF(right, (self.height() - size) / 2, size, size)
        icons.draw(painter, place, self._icon, color)
        painter.setPen(QColor(color))
        room = self.rect().adjusted(left, 0, 2 - right, 0)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter), self._word)
        painter.end()

    def _sides(self) -> tuple[int, int]:
        """Return the room left of the word, including the icon, and right of it."""
        pad = self._theme.gap(_PAD)
        return pad + self._theme.px(_ICON) + self._theme.gap(_GAP), pad

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()
