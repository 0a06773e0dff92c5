"""Paints and edits the cells of the table of stop sequences. Main thread."""

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import (
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine import StopScope, counted
from ui.kit.look import icons
from ui.kit.look.theme import Theme, fixed_font
from ui.stops.stop_cells import StopColumn
from ui.stops.stop_list import StopListModel

PAD_PX = 5
SMALL = 0.88  # the size of counts, relative to the sequences
_SCOPE_ICONS = {
    StopScope.TEXT: "chat",
    StopScope.TEXT_AND_THINKING: "thinking",
    StopScope.ALL: "tool",
}

Index = QModelIndex | QPersistentModelIndex


class StopDelegate(QStyledItemDelegate):
    """Draws a check box, the sequence with visible white space, tokens, and a remark's icon.

    Signals:
        scope_wanted: A person wants to choose where a row applies; carries the row's index.
    """

    scope_wanted = Signal(QModelIndex)

    def __init__(self, theme: Theme, table: QTableView) -> None:
        super().__init__(table)
        self._theme = theme
        self._table = table
        theme.changed.connect(self._repaint)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        colors = self._theme.colors
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
            self._paint_text(painter, area, text, font, colors.text if is_on else colors.faint)
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
        """Return a field for typing the sequence, with escapes if the mode says so."""
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
        """Fill in the sequence as it is typed."""
        assert isinstance(editor, QLineEdit)
        editor.setText(str(index.data(Qt.ItemDataRole.EditRole)))

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        """Give the model exactly the typed text."""
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
        colors = self._theme.colors
        side = self._theme.px(16)
        box = QRectF(0, 0, side, side)
        box.moveCenter(area.center())
        painter.setPen(QPen(QColor(colors.accent if is_on else colors.control), 1.2))
        painter.setBrush(QColor(colors.accent if is_on else colors.raised))
        painter.drawRoundedRect(box, side / 4, side / 4)
        if is_on:
            self._paint_icon(painter, area, "tick", colors.on_accent, 14)

    def _paint_scope(self, painter: QPainter, area: QRectF, scope: StopScope, is_on: bool) -> None:
        colors = self._theme.colors
        # The default choice is muted, so that other choices stand out.
        color = colors.match if is_on and scope != StopScope.TEXT else colors.faint
        self._paint_icon(painter, area, _SCOPE_ICONS[scope], color, 15)

    def _paint_icon(
        self, painter: QPainter, area: QRectF, name: str, color: str, usual: int
    ) -> None:
        """Draw an icon in the middle of a cell."""
        side = self._theme.px(usual)
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
