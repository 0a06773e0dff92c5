"""A bar that names the last action, and offers for a while to undo it. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from ui.kit.text.labels import ElidedLabel

_SHOWN_MS = 10_000


class UndoBar(QFrame):
    """A message and the button "Undo"; hidden until there is something to undo.

    Attributes:
        button: The button.
    """

    def __init__(self) -> None:
        super().__init__()
        card = QFrame()
        card.setObjectName("undo_bar")
        self._words = ElidedLabel()
        self.button = QPushButton("Undo")
        self.button.setAccessibleName("Undo")
        row = QHBoxLayout(card)
        row.setContentsMargins(12, 6, 6, 6)
        row.addWidget(self._words, 1)
        row.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 4, 10, 10)
        layout.addWidget(card)
        self._timer = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def offer(self, words: str) -> None:
        """Name an action, and offer to undo it for a while."""
        self._words.setText(words)
        self._words.setToolTip(words)
        self.button.setAccessibleName(f"Undo: {words}")
        self.show()
        self._timer.start()
