"""The tab that lists runs to show or compare. Main thread; lists them only while visible."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelectionModel,
    QObject,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QPushButton

from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, RowsView
from ui.inspector.shown_run import RunSource, ShownRun, ended_words, when_words
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.tasks import finish_tasks, start_task

_HEADS = ("When", "Conversation", "Question", "Model", "Ended", "Tokens")
_MOST_CHARS = 200
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


class RunTable(QAbstractTableModel):
    """Runs, newest first; those of the open conversation come before the others."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: list[ShownRun] = []
        self._shown_id: str | None = None

    def show_runs(self, runs: Sequence[ShownRun], shown_id: str | None) -> None:
        """List these runs."""
        self.beginResetModel()
        self._runs, self._shown_id = list(runs), shown_id
        self.endResetModel()

    def run_at(self, row: int) -> ShownRun | None:
        return self._runs[row] if 0 <= row < len(self._runs) else None

    def row_of(self, run_id: str | None) -> int | None:
        """Return the row of a run; None if it is not listed."""
        return next((n for n, one in enumerate(self._runs) if one.run.id == run_id), None)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._runs)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_HEADS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        if orientation is Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return _HEADS[section]
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(section)
        return None

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        """Return the text of a cell."""
        shown = self.run_at(index.row())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if shown is None or role not in (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.AccessibleTextRole,
        ):
            return None
        return self._cells(shown)[index.column()]

    def _cells(self, shown: ShownRun) -> tuple[str, ...]:
        run, finished = shown.run, shown.run.finished
        mark = "● " if run.id == self._shown_id else ""
        place = shown.name if shown.source is RunSource.PAST else "This conversation"
        question = " ".join(shown.question[:_MOST_CHARS].split())
        tokens = "" if finished is None else f"{finished.usage.output_tokens:,}"
        return mark + when_words(run), place, question, run.model_id, ended_words(run), tokens


def _alignment(column: int) -> int:
    return _RIGHT if _HEADS[column] == "Tokens" else _LEFT


_WIDTHS = (16, 22, 30, 16, 22, 9)


class RunsTab(InspectorTab):
    """A table of runs; Return shows one, Ctrl+Return compares the shown one with it.

    Signals:
        comparison_wanted: The shown run is to be compared with another; carries a ``ShownRun``.
    """

    comparison_wanted = Signal(object)

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self.model = RunTable(self)
        self.table = RowsView(self.model, "Runs", widths=_WIDTHS)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.note = label("", "muted", 0.92)
        self.open = QPushButton("Show")
        self.open.setAccessibleName("Show the chosen run")
        self.compare = QPushButton("Compare with the Shown Run")
        column(
            row((self.note, 1), self.open, self.compare, spacing=8),
            (self.table, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self.open.clicked.connect(self._open)
        self.compare.clicked.connect(self._compare)
        self.table.doubleClicked.connect(self._open)
        self.table.installEventFilter(self)
        self.table.selectionModel().selectionChanged.connect(self._refresh)

    def show_run(self, shown: ShownRun | None) -> None:
        """List the runs again: another one is shown, or there is a new one."""
        if self.isVisible():
            self._ask()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Show a run with Return, and compare with it with Ctrl+Return."""
        if watched is self.table and isinstance(event, QKeyEvent):
            is_pressed = event.type() == QEvent.Type.KeyPress
            if is_pressed and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                with_control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
                (self._compare if with_control else self._open)()
                return True
        return super().eventFilter(watched, event)

    def showEvent(self, event: QShowEvent) -> None:
        """List the runs once the tab is seen."""
        super().showEvent(event)
        self._ask()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

    def _ask(self) -> None:
        start_task(self, self._list(), "list runs")

    async def _list(self) -> None:
        runs = await self._inspector.known.every()
        shown = self._inspector.shown
        chosen = self._chosen()
        self.model.show_runs(runs, None if shown is None else shown.run.id)
        wanted = chosen.run.id if chosen is not None else None if shown is None else shown.run.id
        row = self.model.row_of(wanted)
        if row is not None:
            flags = QItemSelectionModel.SelectionFlag
            index = self.model.index(row, 0)
            self.table.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self._refresh()

    def _chosen(self) -> ShownRun | None:
        rows = self.table.chosen_rows()
        return self.model.run_at(rows[0]) if rows else None

    def _refresh(self) -> None:
        chosen, shown = self._chosen(), self._inspector.shown
        is_other = chosen is not None and (shown is None or chosen.run.id != shown.run.id)
        self.open.setEnabled(is_other)
        self.compare.setEnabled(is_other and shown is not None)
        count = self.model.rowCount()
        self.note.setText(
            "Answers of this conversation come first, then recent ones of others."
            if count
            else "There are no answers yet."
        )

    def _open(self) -> None:
        if (chosen := self._chosen()) is not None:
            self._inspector.open_run(chosen)

    def _compare(self) -> None:
        chosen = self._chosen()
        if chosen is not None and self.compare.isEnabled():
            self._inspector.fetch(chosen, self.comparison_wanted.emit)
