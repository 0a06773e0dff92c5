"""Rows of lists and tables: what models and delegates name in every room. Main thread."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QHeaderView,
    QListWidget,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from ui.kit.menus import add_entry, literal, passing_menu
from ui.kit.theme import current_theme

Index = QModelIndex | QPersistentModelIndex
# The role of what a cell shows, and the parent that rows of a list have.
DISPLAY = int(Qt.ItemDataRole.DisplayRole)
NO_PARENT = QModelIndex()

# The text of an item is the name, a line break, and the description.

_SIDE_PX, _ABOVE_PX, _BETWEEN_PX = 9, 6, 1
_WRAPPED = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
_SMALLER = 0.92


class TwoLinesDelegate(QStyledItemDelegate):
    """Draws the name in medium weight, and the description muted and wrapped."""

    def __init__(self, view: QListWidget) -> None:
        super().__init__(view)
        self._view = view
        view.setResizeMode(QListWidget.ResizeMode.Adjust)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        current_theme().changed.connect(view.scheduleDelayedItemsLayout)

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Leave the text to ``paint``; the style draws the background."""
        super().initStyleOption(option, index)
        option.text = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        width = self._view.viewport().width() - 2 * self._view.spacing()
        name, rest = self._areas(index, QRect(0, 0, width, 1 << 16))
        return QSize(width, (rest if rest.height() else name).bottom() + 1 + _ABOVE_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row."""
        super().paint(painter, option, index)
        name, rest = _texts(index)
        medium, small = self._fonts()
        name_area, rest_area = self._areas(index, option.rect)
        colors = current_theme().colors
        painter.save()
        painter.setFont(medium)
        painter.setPen(QColor(colors.text))
        elided = QFontMetrics(medium).elidedText(
            name, Qt.TextElideMode.ElideMiddle, name_area.width()
        )
        painter.drawText(name_area, Qt.AlignmentFlag.AlignLeft, elided)
        painter.setFont(small)
        painter.setPen(QColor(colors.muted))
        painter.drawText(rest_area, _WRAPPED, rest)
        painter.restore()

    def _fonts(self) -> tuple[QFont, QFont]:
        medium, small = QFont(self._view.font()), QFont(self._view.font())
        medium.setWeight(QFont.Weight.Medium)
        small.setPointSizeF(small.pointSizeF() * _SMALLER)
        return medium, small

    def _areas(self, index: Index, room: QRect) -> tuple[QRect, QRect]:
        """Return the areas of the name and of the description in a row."""
        medium, small = self._fonts()
        inner = room.adjusted(_SIDE_PX, _ABOVE_PX, -_SIDE_PX, 0)
        name = QRect(inner.topLeft(), QSize(inner.width(), QFontMetrics(medium).lineSpacing()))
        below = inner.adjusted(0, name.height() + _BETWEEN_PX, 0, 0)
        rest = _texts(index)[1]
        height = QFontMetrics(small).boundingRect(below, _WRAPPED, rest).height() if rest else 0
        return name, QRect(below.topLeft(), QSize(below.width(), height))


def _texts(index: Index) -> tuple[str, str]:
    name, _, rest = str(index.data(DISPLAY) or "").partition("\n")
    return name, rest


class FittedColumns(QObject):
    """Fits the columns of a table into its room, and offers to choose them at their heads.

    Those that a person chose are shown whether they fit or not, here and after the next start; the
    theme keeps them by the table's accessible name. Their widths are fitted until a person chooses
    one of them.

    Args:
        view: The table. The one column that has no width of its own takes what is left.
        widths: Returns for each other column, and may for that one, the least width that shows
            what it usually says, and the width that it should have. The name of a column is always
            shown whole.
        spare: The columns that are left out, the first one first, where not all of them fit.
    """

    def __init__(
        self,
        view: QTableView,
        widths: Callable[[], Mapping[int, tuple[int, int]]],
        spare: Sequence[int] = (),
    ) -> None:
        super().__init__(view)
        self._view, self._widths, self._spare = view, widths, spare
        self._is_fitting = self._is_chosen = False  # a person chose the width of a column
        head = view.horizontalHeader()
        head.sectionResized.connect(self._note_width)
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(self._offer)
        view.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Fit the columns when the room changes."""
        # Fitting moves the scroll bars, which change the room: that is no new room.
        is_new = event.type() == QEvent.Type.Resize and not self._is_fitting
        if is_new and not self._is_chosen:
            self.fit()
        return False

    def fill(self, menu: QMenu) -> None:
        """Add an entry for each column, which shows or hides it, and one for the usual columns."""
        shown = self._shown()
        for column in range(self._view.horizontalHeader().count()):
            choose = partial(self._choose, [other for other in shown if other != column])
            if column not in shown:
                choose = partial(self._choose, [*shown, column])
            entry = add_entry(menu, literal(self._name(column)), choose, is_checked=column in shown)
            entry.setEnabled(shown != [column])
        menu.addSeparator()
        usual = add_entry(menu, "Usual Columns", partial(self._choose, []))
        usual.setEnabled(bool(self._chosen()))

    def fit(self) -> None:
        """Fit the columns, also if a person chose their widths: the letters have changed."""
        self._is_fitting = True
        view, head, given = self._view, self._view.horizontalHeader(), self._widths()
        for column in range(head.count()):  # Qt measures no name of a column that is left out
            view.setColumnHidden(column, False)
        names = {column: head.sectionSizeHint(column) for column in range(head.count())}
        least = {column: max(name, given.get(column, (0, 0))[0]) for column, name in names.items()}
        room, shown = view.viewport().width(), self._chosen() or list(names)
        for column in () if self._chosen() else self._spare:
            if sum(least[other] for other in shown) > room:
                shown.remove(column)
        for column in names:
            view.setColumnHidden(column, column not in shown)
        widths = {column: max(given.get(column, (0, 0))[1], least[column]) for column in shown}
        for floors in (least, names):
            most = max(widths.values(), default=0)
            while most > 0 and sum(widths.values()) > room:
                most -= 1
                widths = {place: max(min(px, most), floors[place]) for place, px in widths.items()}
        for column, width in widths.items():
            if not self._is_rest(column):
                view.setColumnWidth(column, width)
        self._is_fitting = False

    def _is_rest(self, column: int) -> bool:
        head = self._view.horizontalHeader()
        if head.stretchLastSection() and column == head.count() - 1:
            return True
        return head.sectionResizeMode(column) is QHeaderView.ResizeMode.Stretch

    def _note_width(self, column: int, before: int, now: int) -> None:
        # A column that is left out, or comes back, is told late: nobody chose that.
        is_by_person = before > 0 and now > 0 and not self._is_fitting
        self._is_chosen = self._is_chosen or (is_by_person and not self._is_rest(column))

    def _name(self, column: int) -> str:
        return str(self._view.model().headerData(column, Qt.Orientation.Horizontal))

    def _shown(self) -> list[int]:
        columns = range(self._view.horizontalHeader().count())
        return [column for column in columns if not self._view.isColumnHidden(column)]

    def _chosen(self) -> list[int]:
        """Return the columns that a person chose; none while the room decides."""
        names = current_theme().columns_of(self._view.accessibleName())
        columns = range(self._view.horizontalHeader().count())
        return [column for column in columns if self._name(column) in names]

    def _choose(self, columns: Sequence[int]) -> None:
        names = [self._name(column) for column in columns]
        current_theme().choose_columns(self._view.accessibleName(), names)
        self._is_chosen = False
        self.fit()

    def _offer(self, place: QPoint) -> None:
        menu = passing_menu(self._view, "Columns")
        self.fill(menu)
        menu.popup(self._view.horizontalHeader().mapToGlobal(place))
