"""Tables: their columns, their model, and their view. Main thread."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QObject, QRect, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from ui.kit.commands import Command, Entry, context_menu, fill_menu
from ui.kit.labels import plain_tooltip
from ui.kit.menus import copy_text, escape_mnemonics
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.theme import current_theme, fixed_font

_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_TEXT_ALIGNMENT = Qt.AlignmentFlag.AlignLeft | _MIDDLE
_NUMBER_ALIGNMENT = Qt.AlignmentFlag.AlignRight | _MIDDLE
_CELL_PX = 7
NONE = "–"  # in a cell without a value


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column and the text that it shows of a row's object.

    The last one may have width 0: it takes the free width, else the widest text does.
    """

    title: str
    width_chars: int
    text: Callable[[Any], str]
    is_number: bool = False
    tooltip: str = ""  # of the header
    min_chars: int = 0  # its width in a table that is too narrow; 0 if it never shrinks
    is_optional: bool = False  # hidden where the narrowest columns are still too wide
    is_kept: bool = False  # shown though it is empty: its first text would move the others

    @property
    def alignment(self) -> Qt.AlignmentFlag:
        return _NUMBER_ALIGNMENT if self.is_number else _TEXT_ALIGNMENT


class TableModel(QAbstractTableModel):
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
        text = option.fontMetrics.elidedText(option.text, option.textElideMode, area.width())
        painter.drawText(area, int(option.displayAlignment | _MIDDLE), text)


class TableView(QTableView):
    """A table whose rows are selected as a whole; the theme keeps its visible columns.

    It follows the newest row as long as the last one is in sight.
    """

    row_opened = Signal()  # by Return or a double click

    def __init__(
        self,
        model: TableModel,
        accessible_name: str,
        *,
        is_code: bool = False,
        hides_empty: bool = False,
        fills: bool = True,
    ) -> None:
        super().__init__()
        self._model = model
        self._empty: set[int] = set()  # columns without a text in any row, which are hidden
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
        self._fills = fills  # else the free width is at the right, in a last column of text
        self._growing = -1  # the column that gets the free width, if the last one does not
        character_px = self.fontMetrics().averageCharWidth()
        for number, column in enumerate(model.columns):
            width_px = character_px * column.width_chars + 2 * _CELL_PX
            if column.width_chars:
                self.setColumnWidth(number, max(width_px, head.sectionSizeHint(number)))
        self._widths_px = [self.columnWidth(number) for number in range(len(model.columns))]
        self._min_px = [
            max(character_px * column.min_chars + 2 * _CELL_PX, head.sectionSizeHint(number))
            if column.min_chars
            else self._widths_px[number]
            for number, column in enumerate(model.columns)
        ]
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(
            lambda position: context_menu(self, "Columns", self.column_entries()).popup(
                head.mapToGlobal(position)
            )
        )
        # The heads take no focus, so the menu of the rows offers the columns, too.
        menu = QMenu("Columns", self)
        fill_menu(menu, (), self.column_entries)
        separator = QAction(self)
        separator.setSeparator(True)
        self.addActions([separator, menu.menuAction()])
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._is_fitting = False
        self._show_chosen_columns()
        head.sectionResized.connect(self._keep_width)
        self.doubleClicked.connect(self.row_opened)
        if not fills:
            self.selectionModel().selectionChanged.connect(lambda: self.viewport().update())
        self._is_at_end = True
        model.rowsAboutToBeInserted.connect(self._note_end)
        model.rowsInserted.connect(self._follow_end)
        if hides_empty:
            model.modelReset.connect(self._hide_empty)
            model.rowsInserted.connect(lambda _, first, __: self._hide_empty(first))
            model.dataChanged.connect(self._show_filled)
            head.hide()  # as long as there are no rows

    def resizeEvent(self, event: QResizeEvent) -> None:
        was_fitting, self._is_fitting = self._is_fitting, True  # this may happen inside a fit
        super().resizeEvent(event)
        self._show_chosen_columns()
        self._is_fitting = was_fitting

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._fills:  # a selected row goes on to the right edge
            painter, left = QPainter(self.viewport()), self.horizontalHeader().length()
            for row in self.selected_rows():
                top, height = self.rowViewportPosition(row), self.rowHeight(row)
                area = QRect(left, top, self.viewport().width() - left, height)
                painter.fillRect(area, self.palette().color(QPalette.ColorRole.Highlight))
            painter.end()
        super().paintEvent(event)

    def _keep_width(self, number: int, _: int, width_px: int) -> None:
        """Keep the width that the user gives to a column."""
        if not self._is_fitting:
            self._widths_px[number] = self._min_px[number] = width_px

    def _fit(self, shown: Sequence[int]) -> None:
        """Give free width to the column that grows; take lacking width from shrinking ones."""
        lacking_px = self._lacking_px(self._widths_px, shown)
        spare_px = {n: self._widths_px[n] - self._min_px[n] for n in shown}
        share = min(1.0, max(0, lacking_px) / (sum(spare_px.values()) or 1))
        for number, px in spare_px.items():
            if px or number == self._growing:
                self.setColumnWidth(number, self._widths_px[number] - math.ceil(px * share))
        if self._growing >= 0 and lacking_px < 0:
            free_px = self.viewport().width() - self.horizontalHeader().length()
            self.setColumnWidth(self._growing, self.columnWidth(self._growing) + max(0, free_px))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.row_opened.emit()
        else:
            super().keyPressEvent(event)

    def _note_end(self) -> None:
        bar = self.verticalScrollBar()
        self._is_at_end = bar.value() >= bar.maximum() - 1

    def _follow_end(self) -> None:
        if self._is_at_end:
            self.scrollToBottom()

    def _hide_empty(self, first: int = 0) -> None:
        rows, columns = self._model.rows[first:], self._model.columns
        candidates = range(len(columns)) if first == 0 else self._empty
        self._empty = {
            column
            for column in candidates
            if rows
            and not columns[column].is_kept
            and all(columns[column].text(row) in ("", NONE) for row in rows)
        }
        self._show_chosen_columns()
        self.horizontalHeader().setVisible(bool(self._model.rows))

    def _show_filled(self, first: Index, last: Index) -> None:
        """Show the hidden columns for which changed rows have a text now."""
        rows, columns = self._model.rows[first.row() : last.row() + 1], self._model.columns
        filled = {n for n in self._empty for row in rows if columns[n].text(row) not in ("", NONE)}
        if filled:
            self._empty -= filled
            self._show_chosen_columns()

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
        shown = self._chosen_columns()
        for column in range(self.horizontalHeader().count()):
            others = [other for other in shown if other != column]
            chosen = others if column in shown else [*shown, column]
            name, is_last = escape_mnemonics(self._column_name(column)), shown == [column]
            choose, is_shown = partial(self._choose_columns, chosen), column in shown
            entries.append(Command(name, choose, enabled=not is_last, checked=is_shown))
        return [*entries, None, Command("All Columns", partial(self._choose_columns, []))]

    def _column_name(self, column: int) -> str:
        return str(self.model().headerData(column, Qt.Orientation.Horizontal))

    def _show_chosen_columns(self) -> None:
        was_fitting, self._is_fitting = self._is_fitting, True
        columns, chosen = self._model.columns, self._chosen_columns()
        shown = [number for number in chosen if number not in self._empty]
        if len(chosen) == len(columns):
            optional = [number for number in shown if columns[number].is_optional]
            while optional and self._lacking_px(self._min_px, shown) > 0:
                shown.remove(optional.pop())
        self.horizontalHeader().setStretchLastSection(False)  # all have their own widths again
        for column in range(len(columns)):
            self.setColumnHidden(column, column not in shown)
        texts = [number for number in shown if not columns[number].is_number]
        # A number in a stretched column would be far from its neighbor: the widest text grows.
        ends_in_text = bool(shown) and shown[-1:] == texts[-1:]
        stretches_last = ends_in_text and not (self._fills and columns[shown[-1]].width_chars)
        if self._growing >= 0:
            self.setColumnWidth(self._growing, self._widths_px[self._growing])
        self._growing = (
            -1
            if stretches_last or not self._fills
            else max(texts, key=lambda number: columns[number].width_chars, default=-1)
        )
        self.horizontalHeader().setStretchLastSection(stretches_last)
        self._fit(shown)
        self._is_fitting = was_fitting

    def _lacking_px(self, widths_px: Sequence[int], shown: Sequence[int]) -> int:
        return sum(widths_px[number] for number in shown) - self.viewport().width()

    def _chosen_columns(self) -> list[int]:
        names = current_theme().columns_of(self.accessibleName())
        columns = list(range(self.horizontalHeader().count()))
        return [column for column in columns if self._column_name(column) in names] or columns

    def _choose_columns(self, columns: Sequence[int]) -> None:
        names = [self._column_name(column) for column in columns]
        current_theme().choose_columns(self.accessibleName(), names)
        self._show_chosen_columns()
