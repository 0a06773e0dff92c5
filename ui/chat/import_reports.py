"""The reports of imports: what came in of each conversation, and what not. Main thread."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QObject, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QListView,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui.chat.sidebar_rows import when_words
from ui.kit.buttons import CheckBox, Choice
from ui.kit.labels import label, plain_tool_tip
from ui.kit.layouts import column
from ui.kit.menus import copy_from
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.theme import current_theme
from ui.kit.windows import move_focus
from ui.records.import_report import ImportReport, ReportedConversation

_WIDTH_PX, _HEIGHT_PX = 620, 520
_GAP_PX = 7
_WRAPPED = int(Qt.TextFlag.TextWordWrap)


class ReportRows(QAbstractListModel):
    """The conversations of a report."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._rows: list[ReportedConversation] = []

    def show(self, rows: Sequence[ReportedConversation]) -> None:
        """Show some conversations."""
        self.beginResetModel()
        self._rows = list(rows)
        self.endResetModel()

    def at(self, row: int) -> ReportedConversation:
        return self._rows[row]

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        """Return the report on a conversation as lines of text."""
        if not index.isValid():
            return None
        told = self._rows[index.row()]
        if role == int(Qt.ItemDataRole.ToolTipRole):
            return plain_tool_tip(f"Not kept: {told.left_out_words or 'nothing'}")
        if role not in (DISPLAY, int(Qt.ItemDataRole.AccessibleTextRole)):
            return None
        lines = [told.title, f"Kept: {told.kept_words}"]
        if words := told.missed_words:
            lines.append(f"Not kept: {words}")
        return "\n".join(lines)


class _ReportDelegate(QStyledItemDelegate):
    """Draws a conversation on as many lines as it needs: Qt cuts off text of several lines."""

    def __init__(self, view: QListView) -> None:
        super().__init__(view)
        self._view = view

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Leave the text to ``paint``."""
        super().initStyleOption(option, index)
        option.text = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        room = QRect(0, 0, self._view.viewport().width() - 2 * _GAP_PX, 1 << 16)
        _, rest = self._areas(index, room)
        return QSize(
            0, rest.bottom() + 2 * _GAP_PX
        )  # as wide as the view, whatever comes beside it

    def _areas(self, index: Index, room: QRect) -> tuple[QRect, QRect]:
        """Return the areas of the title and of the lines below it."""
        title, _, rest = str(index.data()).partition("\n")
        name = QFontMetrics(self._bold()).boundingRect(room, _WRAPPED, title)
        below = room.adjusted(0, name.height() + 2, 0, 0)
        return name, self._view.fontMetrics().boundingRect(below, _WRAPPED, rest)

    def _bold(self) -> QFont:
        font = QFont(self._view.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the background, then the lines."""
        super().paint(painter, option, index)
        painter.save()
        area = option.rect.adjusted(_GAP_PX, _GAP_PX, -_GAP_PX, -_GAP_PX)
        title, _, rest = str(index.data()).partition("\n")
        colors = current_theme().colors
        name, below = self._areas(index, area)
        painter.setFont(self._bold())
        painter.setPen(QColor(colors.text))
        painter.drawText(name, _WRAPPED, title)
        painter.setFont(self._view.font())
        painter.setPen(QColor(colors.muted))
        painter.drawText(below, _WRAPPED, rest)
        painter.restore()


class ImportReportDialog(QDialog):
    """Shows the imports, one at a time; Return or a double click opens a conversation.

    Args:
        reports: The reports, the newest first.
        open_conversation: Opens the conversation with an id.
        parent: The window.
        shown: The conversation to begin with; empty for none.
    """

    def __init__(
        self,
        reports: Sequence[ImportReport],
        open_conversation: Callable[[str], object],
        parent: QWidget,
        shown: str = "",
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Import Reports")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._reports = list(reports)
        self._open = open_conversation
        names = [
            (one.id, f"{one.program}: {one.name}, {when_words(one.imported_at)}") for one in reports
        ]
        self.choice = Choice("Import", names)
        self.choice.setVisible(len(self._reports) > 1)
        self.words = label("", is_wrapped=True)
        self.rest = label("", "muted", 0.95, is_wrapped=True)
        self.only_less = CheckBox("Only conversations of which something did not come in")
        self.rows = ReportRows(self)
        self.list = QListView()
        self.list.setModel(self.rows)
        self.list.setProperty("kind", "rows")
        self.list.setItemDelegate(_ReportDelegate(self.list))
        self.list.setAccessibleName("Conversations of the import")
        self.list.setResizeMode(QListView.ResizeMode.Adjust)
        self.list.setLayoutMode(QListView.LayoutMode.Batched)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.copy = QPushButton("Copy Report")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        column(
            self.choice,
            self.words,
            self.rest,
            self.only_less,
            (self.list, 1),
            buttons,
            spacing=8,
            margins=(18, 16, 18, 16),
            on=self,
        )
        current_theme().open_size(self, _WIDTH_PX, _HEIGHT_PX)
        self.copy.clicked.connect(lambda: copy_from(self.copy, self.report.text()))
        self.choice.currentIndexChanged.connect(self._refresh)
        self.only_less.toggled.connect(self._refresh)
        self.list.activated.connect(lambda index: self._open_at(index.row()))
        first = next((one for one in self._reports if shown and one.of(shown)), None)
        if first is not None:
            self.choice.choose(first.id)
        self._refresh()
        self._show(shown)

    @property
    def report(self) -> ImportReport:
        """The report that is shown."""
        return self._reports[max(self.choice.currentIndex(), 0)]

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _refresh(self) -> None:
        report = self.report
        self.words.setText(report.sentence)
        rest = report.rest()
        self.rest.setText("\n".join(rest))
        self.rest.setVisible(bool(rest))
        self.rest.setToolTip(plain_tool_tip("\n".join(report.rest(with_fields=True))))
        told = report.conversations
        if self.only_less.isChecked():
            told = tuple(one for one in told if one.is_less)
        self.rows.show(told)

    def _show(self, conversation_id: str) -> None:
        rows = range(self.rows.rowCount())
        row = next((n for n in rows if self.rows.at(n).conversation_id == conversation_id), -1)
        if row >= 0:
            self.list.setCurrentIndex(self.rows.index(row))
            self.list.scrollTo(self.rows.index(row))

    def _open_at(self, row: int) -> None:
        self._open(self.rows.at(row).conversation_id)
        self.accept()
