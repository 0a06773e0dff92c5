"""The button at a code card's corner that copies its code. Main thread."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from ui.kit.system.clipboard import copy_from


class CodeButton(QToolButton):
    """Copies a text, and says so for a moment.

    Args:
        parent: Where the card is drawn.
        text: What is copied.
        says: What it is, for a screen reader.
    """

    def __init__(self, parent: QWidget, text: str, says: str) -> None:
        super().__init__(parent)
        self.setText("Copy")
        self.setProperty("kind", "code")
        self.setAccessibleName(f"Copy {says}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(lambda: copy_from(self, text))
        self.show()

    def place(self, card: QRectF, head_px: float) -> None:
        """Stand at the right of a card's head."""
        self.adjustSize()
        x = round(card.right()) - self.width() - 6
        self.move(x, round(card.top()) + (round(head_px) - self.height()) // 2)
