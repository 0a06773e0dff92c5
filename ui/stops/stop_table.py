"""The table of stops: its rows, how they are drawn and edited. Main thread."""

from functools import partial

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QContextMenuEvent, QFont, QKeyEvent, QKeySequence, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine import OWN_STOP_OPTIONS, StopScope, counted
from ui.kit import icons
from ui.kit.menus import add_entry, passing_menu
from ui.kit.rows import Index
from ui.kit.theme import current_theme, fixed_font
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import SCOPE_WORDS, StopColumn

PAD_PX = 5
SMALL = 0.88  # the size of counts, relative to the sequences
_SCOPE_ICONS = {
    StopScope.TEXT: "chat",
    StopScope.TEXT_AND_THINKING: "thinking",
    StopScope.ALL: "tool",
}


class StopDelegate(QStyledItemDelegate):
    """Draws a check box, the sequence with visible white space, tokens, and a remark's icon.

    Signals:
        scope_wanted: A person wants to choose where a row applies; carries the row's index.
    """

    scope_wanted = Signal(QModelIndex)

    def __init__(self, table: QTableView) -> None:
        super().__init__(table)
        self._table = table
        current_theme().changed.connect(self._repaint)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        colors = current_theme().colors
        area = QRectF(option.rect)
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(colors.accent_soft))
        if index.row() > 0:
            painter.setPen(QColor(colors.line))
            painter.drawLine(area.topLeft(), area.topRight())
        column = StopColumn(index.column())
        enabled = index.model().index(index.row(), StopColumn.ENABLED)
        is_on = enabled.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        if column is StopColumn.ENABLED:
            self._paint_box(painter, area, is_on)
        elif column is StopColumn.SEQUENCE:
            font = fixed_font(self._table.font(), 1.0)
            text = str(index.data())
            self._paint_text(painter, area, text, font, colors.text if is_on else colors.hint)
        elif column is StopColumn.SCOPE:
            self._paint_scope(painter, area, index.data(Qt.ItemDataRole.UserRole), is_on)
        elif column in (StopColumn.TOKENS, StopColumn.FIRED):
            font = QFont(self._table.font())
            font.setPointSizeF(font.pointSizeF() * SMALL)
            words = str(index.data())
            if column is StopColumn.TOKENS:
                words = counted(int(words), "token") if words.isdecimal() else ""
            self._paint_text(painter, area, words, font, colors.faint, is_right=True)
        elif index.data():
            self._paint_icon(painter, area, "warning", colors.limit, 16)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(fixed_font(self._table.font(), 1.0))
        model = index.model()
        assert isinstance(model, StopListModel)
        with_escapes = model.edits_with_escapes(index.row())
        editor.setAccessibleName(
            "Stop sequence, with escapes" if with_escapes else "Stop sequence, as typed"
        )
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        assert isinstance(editor, QLineEdit)
        editor.setText(str(index.data(Qt.ItemDataRole.EditRole)))

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        assert isinstance(editor, QLineEdit)
        model.setData(index, editor.text(), Qt.ItemDataRole.EditRole)

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Fill the cell."""
        editor.setGeometry(option.rect.adjusted(0, 3, 0, -3))

    def editorEvent(
        self,
        event: object,
        model: QAbstractItemModel,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """Switch a row on a click anywhere in its first cell."""
        if (
            index.column() == StopColumn.ENABLED
            and isinstance(event, QEvent)
            and event.type() == QEvent.Type.MouseButtonRelease
        ):
            is_on = index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if is_on else Qt.CheckState.Checked
            return model.setData(index, state, Qt.ItemDataRole.CheckStateRole)
        if (
            index.column() == StopColumn.SCOPE
            and isinstance(event, QEvent)
            and event.type() == QEvent.Type.MouseButtonRelease
        ):
            self.scope_wanted.emit(index.model().index(index.row(), StopColumn.SCOPE))
            return True
        return False

    def _repaint(self) -> None:
        self._table.viewport().update()

    def _paint_box(self, painter: QPainter, area: QRectF, is_on: bool) -> None:
        theme = current_theme()
        colors = theme.colors
        side = theme.px(16)
        box = QRectF(0, 0, side, side)
        box.moveCenter(area.center())
        painter.setPen(QPen(QColor(colors.accent if is_on else colors.control), 1.2))
        painter.setBrush(QColor(colors.accent if is_on else colors.raised))
        painter.drawRoundedRect(box, side / 4, side / 4)
        if is_on:
            self._paint_icon(painter, area, "tick", colors.on_accent, 14)

    def _paint_scope(self, painter: QPainter, area: QRectF, scope: StopScope, is_on: bool) -> None:
        colors = current_theme().colors
        # The default choice is muted, so that other choices stand out.
        color = colors.match if is_on and scope != StopScope.TEXT else colors.faint
        self._paint_icon(painter, area, _SCOPE_ICONS[scope], color, 15)

    def _paint_icon(
        self, painter: QPainter, area: QRectF, name: str, color: str, usual: int
    ) -> None:
        """Draw an icon in the middle of a cell."""
        side = current_theme().px(usual)
        place = QRectF(0, 0, side, side)
        place.moveCenter(area.center())
        image = icons.pixmap(name, color, side)
        painter.drawPixmap(place, image, QRectF(image.rect()))

    def _paint_text(
        self,
        painter: QPainter,
        area: QRectF,
        text: str,
        font: QFont,
        color: str,
        is_right: bool = False,
    ) -> None:
        painter.setFont(font)
        painter.setPen(QColor(color))
        side = Qt.AlignmentFlag.AlignRight if is_right else Qt.AlignmentFlag.AlignLeft
        inner = area.adjusted(PAD_PX, 0, -PAD_PX, 0)
        elide = Qt.TextElideMode.ElideRight
        shown = painter.fontMetrics().elidedText(text, elide, int(inner.width()))
        painter.drawText(inner, side | Qt.AlignmentFlag.AlignVCenter, shown)


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


class StopTable(QTableView):
    """Edits in place, drags to reorder, removes with Delete, switches with Space.

    Signals:
        remove_wanted: A person wants to remove the selected rows.
        move_wanted: A person wants to move the current row; carries -1 for up and 1 for down.
    """

    remove_wanted = Signal()
    move_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("stop_table")
        self.setAccessibleName("Stop sequences")
        delegate = StopDelegate(self)
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
        current_theme().changed.connect(self._fit)

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
                self.setColumnWidth(column, max(current_theme().px(width), self._words_px(column)))
        self.setFixedHeight(self.sizeHint().height())

    @property
    def _row_px(self) -> int:
        theme = current_theme()
        return max(theme.gap(_ROW_PX), self.fontMetrics().height() + theme.gap(15))

    def _words_px(self, column: StopColumn) -> int:
        longest = {StopColumn.TOKENS: "88 tokens", StopColumn.FIRED: "88×"}.get(column, "")
        width = self.fontMetrics().horizontalAdvance(longest) * SMALL
        return round(width) + 2 * PAD_PX + 2

    def sizeHint(self) -> QSize:
        model = self.model()
        rows = model.rowCount() if model is not None else 0
        frame = 2 * (current_theme().gap(_FRAME_PAD_PX) + 1)
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
        row, entry = index.row(), model.entries()[index.row()]
        for scope, words in SCOPE_WORDS.items():
            choose = partial(model.set_scope, row, scope)
            add_entry(menu, words, choose, is_checked=scope == entry.scope)
        for option in OWN_STOP_OPTIONS:
            if option.kind is bool:
                is_on = getattr(entry.stop, option.name)
                turn = partial(model.set_option, row, option, not is_on)
                add_entry(menu, option.title, turn, is_checked=is_on)
        place = self.visualRect(index.siblingAtColumn(StopColumn.SCOPE)).bottomLeft()
        menu.popup(self.viewport().mapToGlobal(place))
