"""A layout that places items side by side and wraps them into lines. Main thread."""

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget

# The gap between items and between lines.
_GAP_PX = 6


class FlowLayout(QLayout):
    """Wraps items into lines, as words wrap in a text."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(_GAP_PX)
        self._items: list[QLayoutItem] = []

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        """Add an item."""
        self._items.append(item)

    def count(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Return an item, or None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Remove an item and return it."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        """Take no more room than the items need."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Return True: a narrower layout has more lines."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of the lines at a width."""
        return self._place(QRect(0, 0, width, 0), is_real=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802 - Qt's name
        """Place the items."""
        super().setGeometry(rect)
        self._place(rect, is_real=True)

    def sizeHint(self) -> QSize:
        """Return the size of one line."""
        hints = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        """Return the size of the largest item."""
        least = QSize(0, 0)
        for item in self._items:
            least = least.expandedTo(item.minimumSize())
        return least

    def _place(self, rect: QRect, is_real: bool) -> int:
        left, top, line = rect.left(), rect.top(), 0
        for item in self._items:
            if item.isEmpty():
                continue  # it is hidden
            hint = item.sizeHint()
            width = min(hint.width(), rect.width())
            if left > rect.left() and left + width > rect.right() + 1:
                left, top, line = rect.left(), top + line + self.spacing(), 0
            if is_real:
                item.setGeometry(QRect(QPoint(left, top), QSize(width, hint.height())))
            left += width + self.spacing()
            line = max(line, hint.height())
        return top + line - rect.top()
