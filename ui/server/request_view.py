"""The table of requests on screen: widths, colors, and following the newest row. Main thread."""

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from ui.kit.look.theme import Theme
from ui.kit.text.labels import rescale
from ui.server.request_table import ENTRY_ROLE, RequestColumn, RequestTable
from ui.server.requests import RequestEntry

Index = QModelIndex | QPersistentModelIndex

_WIDTHS = {
    RequestColumn.TIME: 74,
    RequestColumn.CLIENT: 126,
    RequestColumn.DIALECT: 140,
    RequestColumn.MODEL: 100,
    RequestColumn.STREAM: 66,
    RequestColumn.STATUS: 64,
    RequestColumn.STOP: 126,
    RequestColumn.TOKENS: 108,
    RequestColumn.FIRST_TOKEN: 92,
    RequestColumn.SPEED: 56,
    RequestColumn.TOTAL: 70,
}


class RequestView(QTableView):
    """The table; it follows the newest row as long as that row is in sight."""

    def __init__(self, theme: Theme, model: RequestTable) -> None:
        super().__init__()
        self._theme = theme
        self.setProperty("kind", "rows")
        rescale(self, 0.95)
        self.setAccessibleName("Requests")
        self.setModel(model)
        tones = _ToneDelegate(theme, self)
        for column in (RequestColumn.STATUS, RequestColumn.STOP):
            self.setItemDelegateForColumn(column, tones)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = self.horizontalHeader()
        rescale(header, 0.95)
        header.setHighlightSections(False)
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(44)
        header.setSectionResizeMode(RequestColumn.STOP, QHeaderView.ResizeMode.Stretch)
        self._fit()
        self._follows = True
        model.rowsAboutToBeInserted.connect(self._look)
        model.rowsInserted.connect(self._follow)

    def changeEvent(self, event: QEvent) -> None:
        """Give larger text more room."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 10)
        for column, width in _WIDTHS.items():
            self.setColumnWidth(column, self._theme.px(width))

    def _look(self) -> None:
        bar = self.verticalScrollBar()
        self._follows = bar.value() >= bar.maximum() - 1

    def _follow(self) -> None:
        if self._follows:
            self.scrollToBottom()


class _ToneDelegate(QStyledItemDelegate):
    """Colors status and stop by the request's outcome, which the words also say."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Give the text its color."""
        super().initStyleOption(option, index)
        entry = index.data(ENTRY_ROLE)
        color = self._color_of(entry, RequestColumn(index.column()))
        if color is not None:
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, QColor(color))

    def _color_of(self, entry: RequestEntry, column: RequestColumn) -> str | None:
        colors = self._theme.colors
        if entry.is_error:
            return colors.fault
        if entry.is_open:
            return colors.muted
        if column is RequestColumn.STATUS:
            return colors.done
        is_by_rule = bool(entry.ends) and entry.ends[0].stop.rule_index is not None
        return colors.match if column is RequestColumn.STOP and is_by_rule else None
