"""Draws the boxes before tasks, checked and unchecked. Main thread."""

from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPolygonF

from ui.kit.markdown.writing.formulas import FINENESS, Formula


@lru_cache(maxsize=16)
def box(is_done: bool, size_px: float, filled: str, edge: str, tick: str) -> Formula:
    """Return the picture of a box."""
    side = round(size_px * FINENESS)
    image = QImage(side, side, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    inset = side * 0.08
    square = QRectF(inset, inset, side - 2 * inset, side - 2 * inset)
    radius = side * 0.18
    if is_done:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(filled))
        painter.drawRoundedRect(square, radius, radius)
        pen = QPen(QColor(tick), side * 0.11)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        corners = ((0.28, 0.52), (0.44, 0.68), (0.73, 0.34))
        painter.drawPolyline(QPolygonF([QPointF(x * side, y * side) for x, y in corners]))
    else:
        painter.setPen(QPen(QColor(edge), side * 0.08))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(square, radius, radius)
    painter.end()
    return Formula(image, size_px, size_px)
