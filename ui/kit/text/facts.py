"""Rows of a name and a value, and tiles with one figure each. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from ui.kit.text.elided import ElidedChip
from ui.kit.text.labels import clear_layout_of, label


class FactTable(QWidget):
    """Names at the left, values at the right; a value can be selected and copied."""

    def __init__(self, fixed: QFont, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fixed = fixed
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(14)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnMinimumWidth(0, 84)

    def clear(self) -> None:
        """Remove all rows."""
        clear_layout_of(self)

    def add(self, name: str, value: str, is_code: bool = False) -> QLabel:
        """Add a row and return its value's label.

        Args:
            name: The name of the fact.
            value: Its value.
            is_code: Whether it is shown in the fixed font.
        """
        row = self._grid.rowCount()
        title = label(name, "muted", 0.95)
        shown: QLabel
        if is_code:
            shown = ElidedChip(value)
            shown.setFont(self._fixed)
            title.setContentsMargins(0, 3, 0, 0)
        else:
            shown = label(value, "", 0.95, is_wrapped=True)
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        shown.setAccessibleName(f"{name}: {value}")
        self._grid.addWidget(title, row, 0, Qt.AlignmentFlag.AlignTop)
        # Without an alignment a chip would be as wide as the whole column.
        side = Qt.AlignmentFlag.AlignLeft if is_code else Qt.AlignmentFlag(0)
        self._grid.addWidget(shown, row, 1, side)
        return shown

    def add_struck(self, name: str, value: str) -> None:
        """Add a row with a value that was cut off."""
        shown = self.add(name, value, is_code=True)
        shown.setProperty("role", "struck")
        font = QFont(shown.font())
        font.setStrikeOut(True)
        shown.setFont(font)


class FigureTile(QFrame):
    """One figure with its name below."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sunken")
        self._name = name
        self._value = label("–", "", 1.22, weight=QFont.Weight.DemiBold)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(1)
        layout.addWidget(self._value)
        layout.addWidget(label(name, "muted", 0.88))

    def show_value(self, value: str) -> None:
        """Show another figure."""
        self._value.setText(value)
        self.setAccessibleName(f"{self._name}: {value}")
