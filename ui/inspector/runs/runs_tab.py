"""The tab that lists runs to show or compare. Main thread; lists them only while visible."""

from PySide6.QtCore import QEvent, QItemSelectionModel, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.inspector.run.inspector import Inspector
from ui.inspector.run.shown_run import ShownRun
from ui.inspector.runs.run_table import RunTable
from ui.inspector.tape.tables import RowsView
from ui.kit.background.tasks import Tasks
from ui.kit.text.labels import label

_WIDTHS = (16, 22, 30, 16, 22, 9)


class RunsTab(QWidget):
    """A table of runs; Return shows one, Ctrl+Return compares the shown one with it.

    Signals:
        comparison_wanted: The shown run is to be compared with another; carries a ``ShownRun``.
    """

    comparison_wanted = Signal(object)

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._tasks = Tasks()
        self.model = RunTable(self)
        self.table = RowsView(self.model, "Runs", widths=_WIDTHS)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.note = label("", "muted", 0.92)
        self.open = QPushButton("Show")
        self.open.setAccessibleName("Show the chosen run")
        self.compare = QPushButton("Compare with the Shown Run")
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.note, 1)
        top.addWidget(self.open)
        top.addWidget(self.compare)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 12, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(top)
        layout.addWidget(self.table, 1)
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
        await self._tasks.finish()

    def _ask(self) -> None:
        self._tasks.start(self._list(), "list runs")

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
