"""A state in a word, with icon and colour. Main thread."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui import icons
from ui.theme import Theme
from ui.widgets.labels import rescale
from ui.wording import Tone

_ICON = 14
_PAD = 9
_GAP = 5


class StatusPill(QWidget):
    """Says one state; a screen reader hears its name and the state."""

    def __init__(self, theme: Theme, says: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._says = says
        self._word = ""
        self._icon = "mark"
        self._tone = Tone.QUIET
        rescale(self, 0.92)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    @property
    def word(self) -> str:
        """The state in a word."""
        return self._word

    def show_state(self, word: str, icon: str, tone: Tone) -> None:
        """Show another state."""
        self._word, self._icon, self._tone = word, icon, tone
        self.setAccessibleName(f"{self._says}: {word}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for icon and word."""
        metrics = self.fontMetrics()
        width = metrics.horizontalAdvance(self._word) + _ICON + _GAP + 2 * _PAD
        return QSize(width, metrics.height() + 8)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the pill."""
        ink, soft = self._theme.colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(soft))
        radius = self.height() / 2
        painter.drawRoundedRect(QRectF(self.rect()), radius, radius)
        image = icons.pixmap(self._icon, ink, _ICON, self.devicePixelRatioF() * 2)
        place = QRectF(_PAD, (self.height() - _ICON) / 2, _ICON, _ICON)
        painter.drawPixmap(place, image, QRectF(0, 0, image.width(), image.height()))
        painter.setPen(QColor(ink))
        left = _PAD + _ICON + _GAP
        room = self.rect().adjusted(left, 0, -_PAD + 2, 0)
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter), self._word)
        painter.end()
