"""Edits environment variables or headers: a name, a value, and whether the value is a secret.

Main thread.
"""

from collections.abc import Iterable

from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ui.kit.controls.buttons import IconButton
from ui.kit.controls.check_box import CheckBox
from ui.kit.look.theme import Theme
from ui.records.tools import NamedValue


class NamedValueRows(QWidget):
    """A row for each value, and a button that adds one."""

    def __init__(self, theme: Theme, noun: str) -> None:
        super().__init__()
        self._theme = theme
        self._noun = noun
        self.rows: list[_Row] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self.more = QPushButton(f"Add {noun.capitalize()}")
        self.more.setAccessibleName(f"Add a {noun}")
        self.more.setAutoDefault(False)
        self.more.clicked.connect(lambda: self._add(NamedValue("")).name.setFocus())
        line = QHBoxLayout()
        line.addWidget(self.more)
        line.addStretch(1)
        self._column.addLayout(line)
        self._column.addStretch(1)

    def show_values(self, values: Iterable[NamedValue]) -> None:
        """Show values."""
        for value in values:
            self._add(value)

    def values(self) -> tuple[NamedValue, ...]:
        """Return the edited values; rows without a name are left out."""
        return tuple(row.value() for row in self.rows if row.name.text().strip())

    def _add(self, value: NamedValue) -> "_Row":
        row = _Row(self._theme, self._noun, value)
        row.remove.clicked.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._column.insertWidget(len(self.rows) - 1, row)
        return row

    def _remove(self, row: "_Row") -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()
        self.more.setFocus()


class _Row(QWidget):
    """One name and value."""

    def __init__(self, theme: Theme, noun: str, value: NamedValue) -> None:
        super().__init__()
        self._is_kept = value.is_secret and not value.value
        self.name = QLineEdit(value.name)
        self.name.setPlaceholderText("Name")
        self.name.setAccessibleName(f"Name of the {noun}")
        self.text = QLineEdit(value.value)
        self.text.setAccessibleName(f"Value of {value.name or f'the {noun}'}")
        self.secret = CheckBox(theme, "Secret")
        self.secret.setToolTip("Secrets are kept in the keychain, not in the file")
        self.secret.setAccessibleName(f"{value.name or 'It'} is a secret")
        self.remove = IconButton(theme, "close", f"Remove {value.name or f'the {noun}'}")
        self.secret.toggled.connect(self._show_kind)
        self.secret.setChecked(value.is_secret)
        self._show_kind(value.is_secret)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.name, 2)
        line.addWidget(self.text, 3)
        line.addWidget(self.secret)
        line.addWidget(self.remove)

    def value(self) -> NamedValue:
        """Return its present value."""
        return NamedValue(self.name.text().strip(), self.text.text(), self.secret.isChecked())

    def _show_kind(self, is_secret: bool) -> None:
        modes = QLineEdit.EchoMode
        self.text.setEchoMode(modes.Password if is_secret else modes.Normal)
        kept = self._is_kept and is_secret
        self.text.setPlaceholderText("Leave empty to keep the saved value" if kept else "Value")
