"""Tables of rows, as several tabs of the inspector have them. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from ui.theme import fixed_font


class RowsView(QTableView):
    """A table in which whole rows are chosen and nothing is edited."""

    def __init__(self, model: QAbstractItemModel, says: str, *, is_code: bool = False) -> None:
        super().__init__()
        self.setModel(model)
        self.setAccessibleName(says)
        self.setProperty("kind", "rows")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        if is_code:
            self.setFont(fixed_font(self.font(), 0.95))
        rows = self.verticalHeader()
        rows.hide()
        # Rows of one height: measuring each would cost more than drawing those that are seen.
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + 9)
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setStretchLastSection(True)

    def chosen_rows(self) -> list[int]:
        """Return the chosen rows, in order."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def add_copy(self, words: str, text: Callable[[list[int]], str]) -> QAction:
        """Offer to copy rows as text, by the keyboard and from the context menu."""
        action = QAction(words, self)
        action.setShortcut(QKeySequence.StandardKey.Copy)
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(
            lambda: QGuiApplication.clipboard().setText(text(self.chosen_rows()))
        )
        self.addAction(action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        return action
