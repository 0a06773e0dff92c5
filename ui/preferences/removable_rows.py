"""A list whose entries can be removed, each by a button. Main thread."""

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.kit.text.labels import ElidedLabel, clear_layout_of, label


class RemovableRows(QWidget):
    """A row for each entry, with a button that removes it."""

    def __init__(
        self,
        says: str,
        entries: Callable[[], Sequence[tuple[str, ...]]],
        words: Callable[[tuple[str, ...]], str],
        change: Callable[[tuple[tuple[str, ...], ...]], None],
    ) -> None:
        super().__init__()
        self.setAccessibleName(says)
        self._entries = entries
        self._words = words
        self._change = change
        self.buttons: list[QPushButton] = []
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        self.refresh()

    def refresh(self) -> None:
        """Show the entries as they are now."""
        clear_layout_of(self)
        self.buttons = []
        column = self.layout()
        assert column is not None
        for entry in self._entries():
            row = QWidget()
            line = QHBoxLayout(row)
            line.setContentsMargins(0, 0, 0, 0)
            line.addWidget(ElidedLabel(self._words(entry)), 1)
            button = QPushButton("Remove")
            button.setAutoDefault(False)
            button.setAccessibleName(f"Remove {self._words(entry)}")
            button.clicked.connect(lambda _=False, gone=entry: self._remove(gone))
            line.addWidget(button)
            self.buttons.append(button)
            column.addWidget(row)
        if not self.buttons:
            column.addWidget(label("None", "muted"))

    def _remove(self, gone: tuple[str, ...]) -> None:
        self._change(tuple(one for one in self._entries() if one != gone))
        self.refresh()
        if self.buttons:
            self.buttons[0].setFocus()
