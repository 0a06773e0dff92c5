"""A text that is as high as what it holds, for use in a scrolling column.

Main thread. Loads nothing by itself; a link only announces that it was chosen.
"""

from math import ceil
from typing import Any

from PySide6.QtCore import QSizeF, Qt, QUrl
from PySide6.QtGui import QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget


class FlowText(QTextBrowser):
    """Read-only text without scroll bars whose height follows its content.

    Selection works with mouse and keyboard. ``anchorClicked`` tells of a chosen link.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        document = self.document()
        document.setDocumentMargin(0)
        document.documentLayout().documentSizeChanged.connect(self._fit)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Load nothing: a text must not reach for files or the network."""
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave scrolling to the column around this text."""
        event.ignore()

    def _fit(self, size: QSizeF) -> None:
        height = max(ceil(size.height()), self.fontMetrics().height())
        if height != self.height():
            self.setFixedHeight(height)
