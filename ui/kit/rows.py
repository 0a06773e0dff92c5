"""Rows of lists and tables: a delegate for lists; a model, a view and columns for tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QAction, QColor, QFont, QFontMetrics, QKeySequence, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from ui.kit import icons
from ui.kit.commands import Command, Entry, context_menu, fill_menu
from ui.kit.labels import plain_tooltip
from ui.kit.menus import copy_text, escape_mnemonics
from ui.kit.theme import current_theme, fixed_font

Index = QModelIndex | QPersistentModelIndex
DISPLAY = int(Qt.ItemDataRole.DisplayRole)
CONTENT = int(Qt.ItemDataRole.UserRole) + 100
"""The role of a row's ``RowContent``."""
NO_PARENT = QModelIndex()

_SIDE_PX, _ABOVE_PX, _ICON_PX = 10, 7, 14
_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_TEXT_ALIGNMENT = Qt.AlignmentFlag.AlignLeft | _MIDDLE
_NUMBER_ALIGNMENT = Qt.AlignmentFlag.AlignRight | _MIDDLE
_CELL_PX = 7


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column and the text that it shows of a row's object. The last one may have width 0."""

    title: str
    width_chars: int
    text: Callable[[Any], str]
    is_number: bool = False
    tooltip: str = ""  # of the header

    @property
    def alignment(self) -> Qt.AlignmentFlag:
        return _NUMBER_ALIGNMENT if self.is_number else _TEXT_ALIGNMENT


@dataclass(frozen=True, slots=True)
class RowPart:
    """A text of a row, with an icon before it."""

    text: str = ""
    color: str = ""  # empty for the default of its position
    icon: str = ""  # empty for none
    icon_color: str = ""  # empty for that of the text
    bold: Sequence[tuple[int, int]] = ()


_EMPTY = RowPart()


@dataclass(frozen=True, slots=True)
class RowContent:
    """A row of a list: title and right text above, subtitle and badge below."""

    title: RowPart
    note: RowPart = _EMPTY
    right: RowPart = _EMPTY
    subtitle: RowPart = _EMPTY
    badge: RowPart = _EMPTY
    weight: QFont.Weight = QFont.Weight.Medium
    elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight
    inset_px: int = 0
    has_ground: bool = True


class RowDelegate(QStyledItemDelegate):
    """Draws rows of one or two lines."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._view = view

    @property
    def selected_color(self) -> str:
        """The name of the color of selected rows in ``Colors``."""
        return "accent_soft"

    def content(self, index: Index) -> RowContent | None:
        """Return the content that the model has for a row, or else the two lines of its text."""
        content = index.data(CONTENT)
        if isinstance(content, RowContent):
            return content
        title, _, subtitle = str(index.data(DISPLAY) or "").partition("\n")
        elide = Qt.TextElideMode.ElideMiddle
        return RowContent(RowPart(title), subtitle=RowPart(subtitle), elide=elide)

    def height_px(self, lines: int) -> int:
        """Return the height of a row of one or two lines."""
        return lines * self._view.fontMetrics().lineSpacing() + 2 * _ABOVE_PX + 2

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        content = self.content(index)
        has_two = content is not None and bool(content.subtitle.text or content.badge.text)
        return QSize(120, self.height_px(1 + has_two))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        content = self.content(index)
        if content is None:
            return
        colors = current_theme().colors
        area: QRect = option.rect.adjusted(6 + content.inset_px, 1, -6, -1)
        painter.save()
        if content.has_ground:
            selected = getattr(colors, self.selected_color)
            has_ring = self._view.hasFocus()
            icons.draw_row_ground(
                painter, area, option.state, colors, chosen=selected, has_ring=has_ring
            )
        inner = area.adjusted(_SIDE_PX, _ABOVE_PX, -_SIDE_PX, -_ABOVE_PX)
        small = self._font(0.9, QFont.Weight.Normal)
        if content.subtitle.text or content.badge.text:
            half = inner.height() // 2
            below = inner.adjusted(0, half, 0, 0)
            inner.setHeight(half)
            below = self._draw_right(painter, below, content.badge, small, colors.match)
            self._draw(painter, below, content.subtitle, small, colors.muted)
        inner = self._draw_right(painter, inner, content.right, small, colors.faint)
        font = self._font(1.0, content.weight)
        end = self._draw(painter, inner, content.title, font, colors.text, content.elide)
        inner.setLeft(end + _SIDE_PX)
        self._draw(painter, inner, content.note, small, colors.match)
        painter.restore()

    def _font(self, scale: float, weight: QFont.Weight) -> QFont:
        font = QFont(self._view.font())
        font.setPointSizeF(font.pointSizeF() * scale)
        font.setWeight(weight)
        return font

    def _draw_right(
        self, painter: QPainter, line: QRect, part: RowPart, font: QFont, color: str
    ) -> QRect:
        """Draw a part at the end of a line; return the rest of the line."""
        if not part.text:
            return QRect(line)
        width = QFontMetrics(font).horizontalAdvance(part.text) + 1  # advances have fractions
        width += _ICON_PX + 4 if part.icon else 0
        right = QRect(line.right() + 1 - width, line.top(), width, line.height())
        self._draw(painter, right, part, font, color)
        return line.adjusted(0, 0, -width - _SIDE_PX, 0)

    def _draw(
        self,
        painter: QPainter,
        line: QRect,
        part: RowPart,
        font: QFont,
        color: str,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> int:
        """Draw a part at the beginning of a line; return where it ends."""
        left, right, position = line.left(), line.right() + 1, 0
        ink = QColor(part.color or color)
        if part.icon:
            image = icons.pixmap(part.icon, part.icon_color or part.color or color, _ICON_PX)
            painter.drawPixmap(left, line.center().y() - _ICON_PX // 2, image)
            left += _ICON_PX + 4
        bold = QFont(font)
        bold.setWeight(QFont.Weight.DemiBold)
        link = QColor(current_theme().colors.link)
        spans = [(begin, begin + length) for begin, length in part.bold]
        for begin, end in [*spans, (len(part.text), len(part.text))]:
            plain = part.text[position:begin]
            for text, look, pen in ((plain, font, ink), (part.text[begin:end], bold, link)):
                metrics = QFontMetrics(look)
                shown = metrics.elidedText(text, elide, max(0, right - left))
                if shown and (shown == text or len(shown) > 1):  # more than an ellipsis
                    painter.setFont(look)
                    painter.setPen(pen)
                    area = QRect(left, line.top(), right - left, line.height())
                    painter.drawText(area, _MIDDLE, shown)
                    left += metrics.horizontalAdvance(shown)
            position = end
        return left


class RowsModel(QAbstractTableModel):
    """A table with an object for each row, and a column for each ``TableColumn``."""

    def __init__(self, columns: Sequence[TableColumn], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.rows: list[Any] = []

    def show_rows(self, rows: list[Any]) -> None:
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def append_rows(self, rows: Sequence[Any]) -> None:
        first = len(self.rows)
        self.beginInsertRows(NO_PARENT, first, first + len(rows) - 1)
        self.rows += rows
        self.endInsertRows()

    def remove_first_rows(self, count: int) -> None:
        self.beginRemoveRows(NO_PARENT, 0, count - 1)
        del self.rows[:count]
        self.endRemoveRows()

    def as_tsv(self, rows: Sequence[int] | None = None) -> str:
        """Return rows, all by default, as tab-separated values with a header line."""
        target = range(len(self.rows)) if rows is None else rows
        lines = ["\t".join(column.title for column in self.columns)]
        lines += [
            "\t".join(column.text(self.rows[row]) for column in self.columns) for row in target
        ]
        return "\n".join(lines) + "\n"

    def text(self, row: Any, column: int) -> str:
        return self.columns[column].text(row)

    def tooltip(self, row: Any, column: int) -> str:
        return self.text(row, column)

    def color(self, row: Any, column: int) -> str:
        """Return the name of a cell's color in ``Colors``."""
        return "text"

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        if orientation == Qt.Orientation.Horizontal:
            column, roles = self.columns[section], Qt.ItemDataRole
            match role:
                case roles.DisplayRole:
                    return column.title
                case roles.TextAlignmentRole:
                    return column.alignment
                case roles.ToolTipRole:
                    return column.tooltip or None
        return None

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        column, roles = index.column(), Qt.ItemDataRole
        match role:
            case roles.DisplayRole:
                return self.text(self.rows[index.row()], column)
            case roles.ToolTipRole:
                tooltip = self.tooltip(self.rows[index.row()], column)
                return plain_tooltip(tooltip) if tooltip else None
            case roles.TextAlignmentRole:
                return self.columns[column].alignment
            case roles.ForegroundRole:
                color = self.color(self.rows[index.row()], column)
                return QColor(getattr(current_theme().colors, color))
            case roles.AccessibleTextRole:
                text = self.text(self.rows[index.row()], column)
                return f"{self.columns[column].title}: {text}"
        return None


class CellDelegate(QStyledItemDelegate):
    """Draws a cell's text and nothing else: a style sheet would cost ten times as much."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.initStyleOption(option, index)
        roles = option.palette.ColorRole
        if option.state & option.state.State_Selected:
            painter.fillRect(option.rect, option.palette.color(roles.Highlight))
        if not option.text:
            return
        painter.setPen(option.palette.color(roles.Text))
        painter.setFont(option.font)
        area = option.rect.adjusted(_CELL_PX, 0, -_CELL_PX, 0)
        text = option.fontMetrics.elidedText(option.text, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, int(option.displayAlignment | _MIDDLE), text)


class RowsView(QTableView):
    """A table whose rows are selected as a whole; the theme keeps its visible columns.

    It follows the newest row as long as the last one is in sight.
    """

    def __init__(self, model: RowsModel, accessible_name: str, *, is_code: bool = False) -> None:
        super().__init__()
        self.setModel(model)
        self.setAccessibleName(accessible_name)
        self.setProperty("kind", "rows")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFont(fixed_font(self.font(), 0.95) if is_code else self.font())
        self.setItemDelegate(CellDelegate(self))
        rows = self.verticalHeader()
        rows.hide()
        # All rows have one height: measuring each would cost more than drawing the visible ones.
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + 9)
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setStretchLastSection(True)
        character_px = self.fontMetrics().averageCharWidth()
        for number, column in enumerate(model.columns):
            width_px = character_px * column.width_chars + 2 * _CELL_PX
            if column.width_chars:
                self.setColumnWidth(number, max(width_px, head.sectionSizeHint(number)))
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(
            lambda position: context_menu(self, "Columns", self.column_entries()).popup(
                head.mapToGlobal(position)
            )
        )
        # The heads take no focus, so the menu of the rows offers the columns, too.
        menu = QMenu("Columns", self)
        fill_menu(menu, (), self.column_entries)
        self.addAction(menu.menuAction())
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._show_chosen_columns()
        self._is_at_end = True
        model.rowsAboutToBeInserted.connect(self._note_end)
        model.rowsInserted.connect(self._follow_end)

    def _note_end(self) -> None:
        bar = self.verticalScrollBar()
        self._is_at_end = bar.value() >= bar.maximum() - 1

    def _follow_end(self) -> None:
        if self._is_at_end:
            self.scrollToBottom()

    def selected_rows(self) -> list[int]:
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def add_copy(self, label: str, text: Callable[[list[int]], str]) -> QAction:
        action = QAction(label, self)
        action.setShortcut(QKeySequence.StandardKey.Copy)
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: copy_text(text(self.selected_rows())))
        self.insertAction(self.actions()[0], action)
        return action

    def column_entries(self) -> list[Entry]:
        """Return a check box for each column, and an entry that shows all."""
        entries: list[Entry] = []
        columns = range(self.horizontalHeader().count())
        shown = [column for column in columns if not self.isColumnHidden(column)]
        for column in columns:
            others = [other for other in shown if other != column]
            chosen = others if column in shown else [*shown, column]
            name, is_last = escape_mnemonics(self._column_name(column)), shown == [column]
            choose, is_shown = partial(self._choose_columns, chosen), column in shown
            entries.append(Command(name, choose, enabled=not is_last, checked=is_shown))
        return [*entries, None, Command("All Columns", partial(self._choose_columns, []))]

    def _column_name(self, column: int) -> str:
        return str(self.model().headerData(column, Qt.Orientation.Horizontal))

    def _show_chosen_columns(self) -> None:
        names = current_theme().columns_of(self.accessibleName())
        columns = range(self.horizontalHeader().count())
        known = [column for column in columns if self._column_name(column) in names]
        for column in columns:
            self.setColumnHidden(column, bool(known) and column not in known)

    def _choose_columns(self, columns: Sequence[int]) -> None:
        names = [self._column_name(column) for column in columns]
        current_theme().choose_columns(self.accessibleName(), names)
        self._show_chosen_columns()
