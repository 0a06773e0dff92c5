"""Check boxes in the colors of the theme, alone and in lists. Main thread.

The style sheet draws the boxes; it cannot draw the ticks.
"""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
)

from ui.kit.look import icons
from ui.kit.look.theme import Theme

_TICK = 13


class CheckBox(QCheckBox):
    """A check box with a tick."""

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
        painter = QPainter(self)
        _draw_tick(painter, self._theme, box, is_enabled=self.isEnabled())
        painter.end()


class CheckDelegate(QStyledItemDelegate):
    """Draws the items of a list with check boxes that have ticks."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """Draw the item, then the tick in its box."""
        super().paint(painter, option, index)
        state = index.data(Qt.ItemDataRole.CheckStateRole)
        if state is None or Qt.CheckState(state) is not Qt.CheckState.Checked:
            return
        drawn = QStyleOptionViewItem(option)
        self.initStyleOption(drawn, index)
        style = drawn.widget.style() if drawn.widget is not None else QApplication.style()
        element = QStyle.SubElement.SE_ItemViewItemCheckIndicator
        box = style.subElementRect(element, drawn, drawn.widget)
        _draw_tick(painter, self._theme, box, is_enabled=True)


def _draw_tick(painter: QPainter, theme: Theme, box: QRect, *, is_enabled: bool) -> None:
    """Draw a tick into a box."""
    color = theme.colors.on_accent if is_enabled else theme.colors.muted
    size = theme.px(_TICK)
    place = QRectF(0, 0, size, size)
    place.moveCenter(QRectF(box).center())
    icons.draw(painter, place, "tick", color)
