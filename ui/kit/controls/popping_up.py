"""Places cards above or below the widgets that open them, within the screen. Main thread."""

from PySide6.QtCore import QPoint, QSize
from PySide6.QtWidgets import QWidget

_GAP_PX = 8


def pop_up_above(card: QWidget, anchor: QWidget) -> None:
    """Show a card above a widget, as large as its content."""
    card.adjustSize()
    size: QSize = card.sizeHint()
    move_within_screen(card, anchor.mapToGlobal(QPoint(0, -size.height() - _GAP_PX)), size, anchor)
    card.show()


def move_within_screen(card: QWidget, corner: QPoint, size: QSize, anchor: QWidget) -> None:
    """Move a card to a place, or as near to it as the screen allows.

    Args:
        card: The card.
        corner: The wanted place of its upper left corner.
        size: Its size.
        anchor: A widget on the same screen.
    """
    room = anchor.screen().availableGeometry()
    x = max(room.left(), min(corner.x(), room.right() - size.width()))
    y = max(room.top(), min(corner.y(), room.bottom() - size.height()))
    card.move(x, y)
