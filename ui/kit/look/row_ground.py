"""What is behind a row of a list that paints its rows itself. Main thread."""

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyle

from ui.kit.look.colors import Colors

_RADIUS_PX = 8


def draw_row_ground(
    painter: QPainter,
    area: QRect,
    state: QStyle.StateFlag,
    colors: Colors,
    *,
    chosen: str,
    has_ring: bool,
) -> None:
    """Draw a rounded field where a row is chosen, or below the pointer.

    Args:
        painter: Draws it, and is smooth from then on.
        area: Where the row is.
        state: The row's state.
        colors: The theme's.
        chosen: The color of a row that is chosen.
        has_ring: Whether a chosen row has a ring, because the keyboard is in the list.
    """
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    if state & QStyle.StateFlag.State_Selected:
        painter.setBrush(QColor(chosen))
        if has_ring:
            painter.setPen(QColor(colors.accent))
        edge = QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(edge, _RADIUS_PX, _RADIUS_PX)
    elif state & QStyle.StateFlag.State_MouseOver:
        painter.setBrush(QColor(colors.hover))
        painter.drawRoundedRect(area, _RADIUS_PX, _RADIUS_PX)
