"""The heading of the archive in the sidebar, with a button that leaves it. Main thread."""

from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.chat.history.sidebar_rows import SidebarRows
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label


class ArchiveHead(QWidget):
    """A line above the list, while it shows the archive."""

    def __init__(self, theme: Theme, rows: SidebarRows) -> None:
        super().__init__()
        self._rows = rows
        self.leave = IconButton(theme, "close", "Leave the archive")
        self.leave.clicked.connect(lambda: rows.show_archive(False))
        line = QHBoxLayout(self)
        line.setContentsMargins(16, 0, 10, 4)
        line.addWidget(label("Archived conversations", "muted", 0.95))
        line.addStretch(1)
        line.addWidget(self.leave)
        rows.filtered.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        self.setVisible(self._rows.shows_archive)
