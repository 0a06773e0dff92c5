"""A question in its bubble: its files, and plain text exactly as typed. Main thread."""

from collections.abc import Iterable
from math import ceil

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from ui.chat.messages.attached_file import AttachedFile
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import FlowText
from ui.records.attachments import Attachment

_PAD_X, _PAD_Y = 15, 10
_GAP_PX = 8
_LEAST_PX = 100


class PlainBubble(QWidget):
    """Text in a rounded card at the right, as wide as it needs and at most four fifths."""

    def __init__(
        self, theme: Theme, text: str, files: Iterable[Attachment], beside: QWidget
    ) -> None:
        super().__init__()
        self._beside = beside
        self.files = [AttachedFile(theme, file) for file in files]
        self._text = FlowText()
        self._text.setPlainText(text)
        self._text.setAccessibleName(f"You: {text}")
        if self.files and not text:
            self._text.hide()  # not shown here; without a parent it would become a window
        self._card = QFrame()
        self._card.setObjectName("bubble")
        inner = QVBoxLayout(self._card)
        inner.setContentsMargins(_PAD_X, _PAD_Y, _PAD_X, _PAD_Y)
        inner.setSpacing(_GAP_PX)
        for file in self.files:
            inner.addWidget(file)
            file.unfolded.connect(self._fit)
        inner.addWidget(self._text)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(_GAP_PX)
        outer.addStretch(1)
        outer.addWidget(beside, 0, Qt.AlignmentFlag.AlignBottom)
        outer.addWidget(self._card)
        # Text of another size needs another card size, even if the column keeps its width.
        theme.changed.connect(self._fit)

    @property
    def text_view(self) -> FlowText:
        """The view of the text."""
        return self._text

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the card to its text."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.width() - self._beside.sizeHint().width() - _GAP_PX
        most = max(_LEAST_PX, min(int(self.width() * 0.8), room)) - 2 * _PAD_X
        widths = [_text_px(self._text)]
        for file in self.files:
            widths.append(file.chip.sizeHint().width())
            if file.text_view is not None and file.is_unfolded:
                widths.append(_text_px(file.text_view))
        wanted = min(max(widths) + 2, most)
        for part in (self._text, *self.files):
            part.setFixedWidth(wanted)

    def minimumSizeHint(self) -> QSize:
        """Allow a narrow column."""
        return QSize(120, super().minimumSizeHint().height())


def _text_px(view: FlowText) -> int:
    """Return the width of the longest line."""
    metrics = view.fontMetrics()
    lines = view.toPlainText().split("\n")
    return ceil(max(metrics.horizontalAdvance(line.replace("\t", " " * 10)) for line in lines))
