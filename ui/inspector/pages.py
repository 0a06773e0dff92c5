"""Pages of text and tables in the inspector, with one left edge. Main thread."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QRect,
    Qt,
)
from PySide6.QtGui import (
    QAction,
    QFontMetrics,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QPlainTextEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTextBrowser,
    QTextEdit,
    QWidget,
)

from ui.inspector.shown_run import ShownRun
from ui.kit.menus import copy_text, empty_menu
from ui.kit.rows import FittedColumns, Index
from ui.kit.theme import fixed_font

TEXT_MARGIN_PX = 12
# A plain text's frame has this much padding in the style sheet, where a page has two pixels.
_PLAIN_PADDING_PX = 6


class InspectorTab(QWidget):
    """A tab of the inspector; it works only while it can be seen."""

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run, or the same one with its end; None if there is none."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Show what has arrived of a running answer; most tabs wait for its end."""

    async def finish(self) -> None:
        """Wait until the background work has ended."""


class ReadingPage(QTextBrowser):
    """A page that is filled with markup, and opens no links by itself.

    Args:
        says: What it shows, for a screen reader.
        hint: What stands on it while it is empty. Qt's own placeholder would end with its line.
    """

    def __init__(self, says: str, hint: str = "") -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setAccessibleName(says)
        self.say(hint)
        align(self)

    def say(self, hint: str) -> None:
        """Change what stands on it while it is empty."""
        self.hint = hint
        self.setAccessibleDescription(hint)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hint and self.document().isEmpty():
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            room = (
                self.viewport().rect().adjusted(TEXT_MARGIN_PX, TEXT_MARGIN_PX, -TEXT_MARGIN_PX, 0)
            )
            painter.drawText(room, Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap, self.hint)
            painter.end()


def align(page: QTextEdit | QPlainTextEdit) -> None:
    """Give a page the same left edge for its text as every other page."""
    if isinstance(page, QTextEdit):
        page.setProperty("kind", "page")
        family = fixed_font(page.font()).family()
        page.document().setDefaultStyleSheet(f"code {{ font-family: '{family}'; }}")
        page.document().setDocumentMargin(TEXT_MARGIN_PX)
    else:
        page.document().setDocumentMargin(TEXT_MARGIN_PX - _PLAIN_PADDING_PX)


_PAD_PX = 7
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class CellDelegate(QStyledItemDelegate):
    """Draws a cell's text and nothing else: a style sheet would cost ten times as much."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the background of a chosen row, and as much of the text as there is room for."""
        area: QRect = option.rect
        palette: QPalette = option.palette
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, palette.color(QPalette.ColorRole.Highlight))
            painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        else:
            painter.setPen(palette.color(QPalette.ColorRole.Text))
        text = index.data()
        if not text:
            return
        given = index.data(Qt.ItemDataRole.TextAlignmentRole)
        place = int(given) if given else int(_LEFT)
        room = area.adjusted(_PAD_PX, 0, -_PAD_PX, 0)
        painter.setFont(option.font)
        metrics: QFontMetrics = option.fontMetrics
        if metrics.horizontalAdvance(text) > room.width():
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, place, text)


NO_LEAST: Mapping[int, int] = MappingProxyType({})


class RowsView(QTableView):
    """A table in which whole rows are chosen and nothing is edited.

    Args:
        model: The rows.
        says: What a screen reader calls the table.
        is_code: Whether it is in the fixed font.
        widths: The letters for which each column should have room.
        least: The letters for which a column has room in any case, by its number.
        spare: The columns that are left out, the first one first, where there is no room for all.
    """

    def __init__(
        self,
        model: QAbstractItemModel,
        says: str,
        *,
        is_code: bool = False,
        widths: Sequence[int] = (),
        least: Mapping[int, int] = NO_LEAST,
        spare: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._widths, self._least = widths, least
        self.setModel(model)
        self._columns = FittedColumns(self, self._wanted, spare)
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
        self.setItemDelegate(CellDelegate(self))
        rows = self.verticalHeader()
        rows.hide()
        # All rows have one height: measuring each would cost more than drawing the visible ones.
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setStretchLastSection(True)
        # Also here: the heads take no focus.
        menu = QMenu("Columns", self)
        menu.aboutToShow.connect(partial(self._fill, menu))
        self.addAction(menu.menuAction())
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Adapt rows and columns to the size of the letters."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 9)
        self._columns.fit()

    def _wanted(self) -> dict[int, tuple[int, int]]:
        letter_px = self.fontMetrics().averageCharWidth()
        around_px = 2 * _PAD_PX
        return {
            column: (letter_px * self._least.get(column, 0) + around_px, letter_px * n + around_px)
            for column, n in enumerate(self._widths)
        }

    def chosen_rows(self) -> list[int]:
        """Return the chosen rows, in order."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def _fill(self, menu: QMenu) -> None:
        empty_menu(menu)
        self._columns.fill(menu)

    def add_copy(self, words: str, text: Callable[[list[int]], str]) -> QAction:
        """Offer to copy rows as text, by the keyboard and from the context menu."""
        action = QAction(words, self)
        action.setShortcut(QKeySequence.StandardKey.Copy)
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: copy_text(text(self.chosen_rows())))
        self.insertAction(self.actions()[0], action)
        return action
