"""A question in its bubble: plain text, exactly as typed. Main thread."""

from math import ceil

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from ui.kit.text.flow_text import FlowText

_PAD_X, _PAD_Y = 15, 10
_GAP_PX = 8
_LEAST_PX = 100


class PlainBubble(QWidget):
    """Text in a rounded card at the right, as wide as it needs and at most four fifths.

    Args:
        text: The text.
        says: What a screen reader calls it.
        beside: What stands at the left of the card, at its foot.
    """

    def __init__(self, text: str, says: str, beside: QWidget) -> None:
        super().__init__()
        self._beside = beside
        self._text = FlowText()
        self._text.setPlainText(text)
        self._text.setAccessibleName(says)
        self._card = QFrame()
        self._card.setObjectName("bubble")
        inner = QHBoxLayout(self._card)
        inner.setContentsMargins(_PAD_X, _PAD_Y, _PAD_X, _PAD_Y)
        inner.addWidget(self._text)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(_GAP_PX)
        outer.addStretch(1)
        outer.addWidget(beside, 0, Qt.AlignmentFlag.AlignBottom)
        outer.addWidget(self._card)

    @property
    def text_view(self) -> FlowText:
        """The view of the text."""
        return self._text

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the card to its text."""
        super().resizeEvent(event)
        metrics = self._text.fontMetrics()
        lines = self._text.toPlainText().split("\n")
        wanted = max(metrics.horizontalAdvance(line.replace("\t", " " * 10)) for line in lines)
        room = self.width() - self._beside.sizeHint().width() - _GAP_PX
        most = max(_LEAST_PX, min(int(self.width() * 0.8), room)) - 2 * _PAD_X
        self._text.setFixedWidth(min(ceil(wanted) + 2, most))

    def minimumSizeHint(self) -> QSize:
        """Allow a narrow column."""
        return QSize(120, super().minimumSizeHint().height())
