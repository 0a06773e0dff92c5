"""Labels in the type scale of the window. Main thread."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget


def label(
    text: str = "",
    role: str = "",
    scale: float = 1.0,
    is_wrapped: bool = False,
    weight: QFont.Weight | None = None,
) -> QLabel:
    """Return a plain-text label.

    Args:
        text: What it says; never read as markup.
        role: ``title``, ``heading``, ``muted``, ``faint``, ``fault`` or ``chip``.
        scale: Size relative to the application's font.
        is_wrapped: Whether it takes several lines.
        weight: Another weight than the role's.
    """
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        made.setProperty("role", role)
    made.setWordWrap(is_wrapped)
    if is_wrapped:
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        made.setSizePolicy(policy)
    rescale(made, scale, weight)
    return made


def rescale(widget: QWidget, scale: float, weight: QFont.Weight | None = None) -> None:
    """Give a widget the application's font, ``scale`` times as large."""
    font = QFont(widget.font())
    font.setPointSizeF(font.pointSizeF() * scale)
    if weight is not None:
        font.setWeight(weight)
    widget.setFont(font)


def clear_layout_of(widget: QWidget) -> None:
    """Remove all that a widget's layout holds."""
    layout = widget.layout()
    while layout is not None and (item := layout.takeAt(0)) is not None:
        inner = item.widget()
        if inner is not None:
            inner.hide()
            inner.deleteLater()


class ElidedLabel(QLabel):
    """A line of text that is cut with an ellipsis where room is short."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:
        """Allow any width."""
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        area = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, int(self.alignment()) | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()
