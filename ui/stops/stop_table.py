"""The table of stop sequences: paints and edits its cells. Main thread."""

from functools import partial

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QTableView,
)

from ui.kit.look.theme import Theme
from ui.kit.system.menus import add_entry, passing_menu
from ui.stops.stop_cells import SCOPE_WORDS, StopColumn
from ui.stops.stop_delegate import PAD_PX, SMALL, StopDelegate
from ui.stops.stop_list import StopListModel

_ROW_PX = 34
_MOST_ROWS_SHOWN = 7
_FRAME_PAD_PX = 3  # between frame and rows, as in the style sheet: rows end inside round corners
_WIDTHS_PX = {
    StopColumn.ENABLED: 36,
    StopColumn.SCOPE: 26,
    StopColumn.TOKENS: 66,
    StopColumn.FIRED: 34,
    StopColumn.REMARK: 28,
}
_EDIT_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F2)

Index = QModelIndex | QPersistentModelIndex


class StopTable(QTableView):
    """Edits in place, drags to reorder, removes with Delete, switches with Space.

    Signals:
        remove_wanted: A person wants to remove the selected rows.
        move_wanted: A person wants to move the current row; carries -1 for up and 1 for down.
    """

    remove_wanted = Signal()
    move_wanted = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("stop_table")
        self.setAccessibleName("Stop sequences")
        delegate = StopDelegate(theme, self)
        delegate.scope_wanted.connect(self.choose_scope)
        self.setItemDelegate(delegate)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalHeader().hide()
        self.horizontalHeader().hide()
        theme.changed.connect(self._fit)

    def setModel(self, model: QAbstractItemModel | None) -> None:
        """Show a list; the column of sequences takes the remaining width.

        What is being edited in the list shown before is entered there.
        """
        for field in self.viewport().findChildren(QLineEdit):
            self.commitData(field)
        super().setModel(model)
        # Qt creates a selection model for each model, and keeps the old one alive.
        for selection in self.findChildren(QItemSelectionModel):
            if selection is not self.selectionModel():
                selection.deleteLater()
        header = self.horizontalHeader()
        header.setMinimumSectionSize(24)
        self.verticalHeader().setMinimumSectionSize(24)
        header.setSectionResizeMode(StopColumn.SEQUENCE, QHeaderView.ResizeMode.Stretch)
        for column in _WIDTHS_PX:
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Give larger text more room."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(self._row_px)
        if self.model() is not None:
            for column, width in _WIDTHS_PX.items():
                self.setColumnWidth(column, max(self._theme.px(width), self._words_px(column)))
        self.setFixedHeight(self.sizeHint().height())

    @property
    def _row_px(self) -> int:
        return max(self._theme.gap(_ROW_PX), self.fontMetrics().height() + self._theme.gap(15))

    def _words_px(self, column: StopColumn) -> int:
        longest = {StopColumn.TOKENS: "88 tokens", StopColumn.FIRED: "88×"}.get(column, "")
        width = self.fontMetrics().horizontalAdvance(longest) * SMALL
        return round(width) + 2 * PAD_PX + 2

    def sizeHint(self) -> QSize:
        """Return a height for all rows, up to seven."""
        model = self.model()
        rows = model.rowCount() if model is not None else 0
        frame = 2 * (self._theme.gap(_FRAME_PAD_PX) + 1)
        return QSize(240, min(max(rows, 1), _MOST_ROWS_SHOWN) * self._row_px + frame)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Remove, switch and move rows by keyboard."""
        index = self.currentIndex()
        is_alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if event.matches(QKeySequence.StandardKey.Delete) or event.key() == Qt.Key.Key_Backspace:
            self.remove_wanted.emit()
        elif is_alt and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.move_wanted.emit(-1 if event.key() == Qt.Key.Key_Up else 1)
        elif event.key() == Qt.Key.Key_Space and index.isValid():
            cell = index.siblingAtColumn(StopColumn.ENABLED)
            is_on = cell.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if is_on else Qt.CheckState.Checked
            self.model().setData(cell, state, Qt.ItemDataRole.CheckStateRole)
        elif event.key() in _EDIT_KEYS and index.isValid():
            if self.state() != QAbstractItemView.State.EditingState:
                self.edit(index.siblingAtColumn(StopColumn.SEQUENCE))
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show the menu of where the row applies: at the mouse or, by keyboard, at the row."""
        index = self.indexAt(event.pos())
        if event.reason() == QContextMenuEvent.Reason.Keyboard or not index.isValid():
            index = self.currentIndex()
        if index.isValid():
            self.choose_scope(index)

    def choose_scope(self, index: QModelIndex) -> None:
        """Show a menu of where a row can apply."""
        model = self.model()
        assert isinstance(model, StopListModel)
        menu = passing_menu(self, "Where this sequence applies")
        row, now = (
            index.row(),
            index.siblingAtColumn(StopColumn.SCOPE).data(Qt.ItemDataRole.UserRole),
        )
        for scope, words in SCOPE_WORDS.items():
            add_entry(menu, words, partial(model.set_scope, row, scope), is_checked=scope == now)
        place = self.visualRect(index.siblingAtColumn(StopColumn.SCOPE)).bottomLeft()
        menu.popup(self.viewport().mapToGlobal(place))
