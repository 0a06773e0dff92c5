"""A check box in the colors of the theme. Main thread."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton

from ui.kit.look import icons
from ui.kit.look.theme import Theme

_TICK = 13


class CheckBox(QCheckBox):
    """A check box. The style sheet draws the box; it cannot draw the tick, so this class does."""

    def __init__(self, theme: Theme, text: str) -> None:
        super().__init__(text)
        self._theme = theme
        self.setAccessibleName(text)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box, then its tick."""
        super().paintEvent(event)
        if not self.isChecked():
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box = self.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, self)
        colors = self._theme.colors
        color = colors.on_accent if self.isEnabled() else colors.muted
        size = self._theme.px(_TICK)
        image = icons.pixmap("tick", color, size, self.devicePixelRatioF() * 2)
        place = QRectF(0, 0, size, size)
        place.moveCenter(QRectF(box).center())
        painter = QPainter(self)
        painter.drawPixmap(place, image, QRectF(0, 0, image.width(), image.height()))
        painter.end()
