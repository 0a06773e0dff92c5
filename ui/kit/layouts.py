"""Columns, rows and forms: items, with spacing and margins as arguments.

    column(
        heading,
        row(field, button, spacing=8),
        (table, 1),
        STRETCH,
        spacing=12,
        margins=(18, 16, 18, 16),
        on=self,
    )

An item is a widget, a layout, a number of pixels to leave free, or a tuple of a widget or a layout,
its stretch factor and, if it has one, its alignment; with None, the free space. Main thread.
"""

from typing import TypeVar

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

Inside = QWidget | QLayout
# Of all sides, or of the left, the top, the right and the bottom.
Margins = int | tuple[int, int, int, int]
_Box = TypeVar("_Box", bound=QBoxLayout)
_Layout = TypeVar("_Layout", bound=QLayout)


STRETCH = (None, 1)
BAR_PX = 11  # of a vertical scroll bar
Item = Inside | int | tuple[Inside | None, int] | tuple[Inside, int, Qt.AlignmentFlag]


def column(
    *items: Item,
    spacing: int | None = None,
    margins: Margins | None = 0,
    on: QWidget | None = None,
) -> QVBoxLayout:
    """Return a layout of items from top to bottom."""
    return _fill(QVBoxLayout(), items, spacing, margins, on)


def row(
    *items: Item,
    spacing: int | None = None,
    margins: Margins | None = 0,
    on: QWidget | None = None,
) -> QHBoxLayout:
    """Return a layout of items from left to right; the arguments are those of ``column``."""
    return _fill(QHBoxLayout(), items, spacing, margins, on)


def card(*items: Item, spacing: int | None = None, margins: Margins = 16) -> QFrame:
    """Return a frame with a column of items."""
    frame = QFrame()
    frame.setObjectName("card")
    column(*items, spacing=spacing, margins=margins, on=frame)
    return frame


def form(
    *rows: tuple[str | QWidget, Inside] | Inside,
    spacing: int | tuple[int, int] | None = None,
    margins: Margins | None = 0,
    on: QWidget | None = None,
    growth: QFormLayout.FieldGrowthPolicy = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow,
    wraps: bool = False,
) -> QFormLayout:
    """Return a layout of labels and the fields beside them."""
    layout = _shape(QFormLayout(), None, margins, on)
    if spacing is not None:
        across, down = spacing if isinstance(spacing, tuple) else (spacing, spacing)
        layout.setHorizontalSpacing(across)
        layout.setVerticalSpacing(down)
    layout.setFieldGrowthPolicy(growth)
    if wraps:
        layout.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
    for line in rows:
        label, inside = line if isinstance(line, tuple) else (None, line)
        if label is None:
            layout.addRow(inside)
        else:
            layout.addRow(label, inside)
    return layout


def scrolling(
    inside: Inside,
    accessible_name: str,
    parent: QWidget | None = None,
    *,
    goes_sideways: bool = True,
    keeps_width: bool = False,
) -> QScrollArea:
    """Return an area without a frame that scrolls a widget, or a new one with a layout.

    Where it keeps its width, the room of the vertical bar is free while there is none.
    """
    if isinstance(inside, QLayout):
        holder = QWidget()
        holder.setLayout(inside)
        inside = holder
    inside.setObjectName("scrolled")
    area = QScrollArea(parent)
    area.setAccessibleName(accessible_name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    if not goes_sideways:
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if keeps_width:
        bar = area.verticalScrollBar()
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        bar.rangeChanged.connect(lambda begin, end: bar.setEnabled(end > begin))
        bar.setEnabled(False)
    area.setWidget(inside)
    return area


def _fill(
    layout: _Box,
    items: tuple[Item, ...],
    spacing: int | None,
    margins: Margins | None,
    on: QWidget | None,
) -> _Box:
    _shape(layout, spacing, margins, on)
    for item in items:
        if isinstance(item, int):
            layout.addSpacing(item)
        else:
            _add(layout, *(item if isinstance(item, tuple) else (item,)))
    return layout


def _add(
    layout: QBoxLayout,
    inside: Inside | None,
    stretch: int = 0,
    alignment: Qt.AlignmentFlag | None = None,
) -> None:
    if inside is None:
        layout.addStretch(stretch)
        return
    if isinstance(inside, QWidget):
        layout.addWidget(inside, stretch)
    else:
        layout.addLayout(inside, stretch)
    if alignment is not None:
        layout.setAlignment(inside, alignment)


def _shape(
    layout: _Layout, spacing: int | None, margins: Margins | None, on: QWidget | None
) -> _Layout:
    if on is not None:
        on.setLayout(layout)
    if margins is not None:
        sides = (margins,) * 4 if isinstance(margins, int) else margins
        layout.setContentsMargins(*sides)
    if spacing is not None:
        layout.setSpacing(spacing)
    return layout


class FlowLayout(QLayout):
    """Wraps items into lines, as words wrap in a text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(6)
        self._items: list[QLayoutItem] = []

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Return an item, or None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        """Take no more room than the items need."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), is_real=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802 - Qt's name
        super().setGeometry(rect)
        self._arrange(rect, is_real=True)

    def sizeHint(self) -> QSize:
        hints = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        minimum = QSize(0, 0)
        for item in self._items:
            minimum = minimum.expandedTo(item.minimumSize())
        return minimum

    def _arrange(self, rect: QRect, is_real: bool) -> int:
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
