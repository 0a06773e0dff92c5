"""A drop-down list with an arrow in the colors of the theme. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox

from ui.kit.look import icons
from ui.kit.look.theme import Theme

_ARROW = 14
_EDGE = 9


class Choice(QComboBox):
    """Lets a person choose one of several values, each shown as a few words.

    Args:
        theme: The look.
        says: Its accessible name.
        choices: The values, each with its words.
    """

    def __init__(self, theme: Theme, says: str, choices: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self._theme = theme
        self.setProperty("kind", "choice")
        self.setAccessibleName(says)
        for value, words in choices:
            self.addItem(words, value)
        theme.changed.connect(self.update)

    def choose(self, value: str) -> None:
        """Show a value."""
        self.setCurrentIndex(self.findData(value))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the field, then the arrow that the style sheet leaves out."""
        super().paintEvent(event)
        size, edge = self._theme.px(_ARROW), self._theme.gap(_EDGE)
        place = QRectF(self.width() - size - edge, (self.height() - size) / 2, size, size)
        painter = QPainter(self)
        icons.draw(painter, place, "chevron-down", self._theme.colors.muted)
        painter.end()
