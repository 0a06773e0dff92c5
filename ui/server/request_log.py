"""The requests of other programs, like the network panel of a browser. Main thread."""

from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLineEdit,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from ui.kit.background.files import FileRefused, write_text
from ui.kit.background.tasks import Tasks
from ui.kit.controls.buttons import ChipButton, IconButton
from ui.kit.controls.choice import Choice
from ui.kit.controls.clear_button import add_clear_button
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_target
from ui.kit.text.labels import label
from ui.server.request_table import ENTRY_ROLE, RequestTable
from ui.server.request_text import as_jsonl
from ui.server.request_view import RequestView
from ui.server.requests import RequestEntry, RequestLog

Index = QModelIndex | QPersistentModelIndex

_ALL = "All Routes"
_FILTER_PX = 300  # the width of the words in the empty filter
_JSON_LINES = "JSON Lines (*.jsonl)"


class RequestLogPanel(QWidget):
    """Filters, the table, and what to do with it.

    Signals:
        entry_chosen: A person chose a request; carries the ``RequestEntry``.
        entry_changed: More is known about the chosen request; carries it, or None once it is gone.
        export_failed: The export could not be written; carries the reason in words.
    """

    entry_chosen = Signal(object)
    entry_changed = Signal(object)
    export_failed = Signal(str)

    def __init__(self, theme: Theme, log: RequestLog) -> None:
        super().__init__()
        self._theme = theme
        self._log = log
        self._tasks = Tasks()
        self._chosen = ""
        self._is_choosing_again = False
        self.table = RequestTable(log, self)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Filter by client, path, model, status or stop")
        self.search.setAccessibleName("Filter requests")
        add_clear_button(theme, self.search, "Clear the filter")
        self.dialects = Choice(theme, "Routes to show", [("", _ALL)])
        self.dialects.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToContents)
        self.errors_only = ChipButton(theme, "fault", "Errors Only", is_toggle=True)
        self.pause = ChipButton(theme, "clock", "Pause", is_toggle=True)
        self.export = IconButton(theme, "report", "Save the shown requests as JSON Lines")
        self.clear = IconButton(theme, "trash", "Clear the list of requests")
        self.view = RequestView(theme, self.table)
        self._empty = label("", "muted", 1.0, is_wrapped=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._status = label("", "faint", 0.92)
        self._bar = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons = QHBoxLayout()
        self._lay_out()
        self._connect_signals()
        self._refresh()

    async def finish(self) -> None:
        """Wait for an export that is being written."""
        await self._tasks.finish()

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the log while it is visible."""
        super().showEvent(event)
        self.table.set_shown(True)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop following the log while it is hidden."""
        super().hideEvent(event)
        self.table.set_shown(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the filter a line of its own if its words would not fit beside the buttons."""
        super().resizeEvent(event)
        beside = self._buttons.sizeHint().width() + self._bar.spacing()
        fits = event.size().width() >= beside + self._theme.px(_FILTER_PX)
        directions = QBoxLayout.Direction
        self._bar.setDirection(directions.LeftToRight if fits else directions.TopToBottom)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self._buttons.setSpacing(8)
        for part in (self.dialects, self.errors_only, self.pause, self.export, self.clear):
            self._buttons.addWidget(part)
        self._buttons.addStretch()
        self._bar.setSpacing(8)
        self._bar.addWidget(self.search, 1)
        self._bar.addLayout(self._buttons)
        holder = QWidget()
        holder.setObjectName("request_holder")
        self._pages = QStackedLayout(holder)
        self._pages.setStackingMode(QStackedLayout.StackingMode.StackAll)
        self._pages.addWidget(self.view)
        self._pages.addWidget(self._empty)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._empty.setContentsMargins(40, 0, 40, 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(self._bar)
        layout.addWidget(holder, 1)
        layout.addWidget(self._status)

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._filter)
        self.dialects.currentIndexChanged.connect(self._filter)
        self.errors_only.toggled.connect(self._filter)
        self.pause.toggled.connect(self._log.set_paused)
        self.clear.clicked.connect(self._log.clear)
        self.export.clicked.connect(self._choose_file)
        self._log.pause_changed.connect(self._refresh)
        self.table.rowsInserted.connect(self._refresh)
        self.table.rowsRemoved.connect(self._refresh)
        self.table.modelReset.connect(self._refresh)
        self.table.entry_updated.connect(self._follow_chosen)
        self.table.modelReset.connect(self._choose_again)
        self.table.rowsRemoved.connect(self._miss_chosen)
        self.view.selectionModel().currentRowChanged.connect(self._choose)
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)

    # -- intents ---------------------------------------------------------------------------

    def _filter(self) -> None:
        self.table.filter(
            self.search.text().strip(),
            self.dialects.currentData() or "",
            self.errors_only.isChecked(),
        )
        self._refresh()

    def _choose(self, current: Index) -> None:
        if self._is_choosing_again or not current.isValid():
            return
        entry = self.table.data(current, ENTRY_ROLE)
        if entry is not None:
            self._chosen = entry.id
            self.entry_chosen.emit(entry)

    def _choose_again(self) -> None:
        """Select the chosen request again after the table was filled again."""
        row = self.table.row_of(self._chosen)
        if row >= 0:
            self._is_choosing_again = True
            self.view.selectRow(row)
            self._is_choosing_again = False
        else:
            self._miss_chosen()

    def _miss_chosen(self) -> None:
        """Emit ``entry_changed`` with None if the chosen request is no longer shown."""
        if self._chosen and self.table.row_of(self._chosen) < 0:
            self._chosen = ""
            self.entry_changed.emit(None)

    def _follow_chosen(self, entry: RequestEntry) -> None:
        if entry.id == self._chosen:
            self.entry_changed.emit(entry)

    def _choose_file(self) -> None:
        title = "Save the Shown Requests"
        choose_target(self, title, self.export_to, name="requests.jsonl", filters=[_JSON_LINES])

    def export_to(self, path: Path) -> None:
        """Write the shown requests to a file, in the background."""
        self._tasks.start(self._export(path, tuple(self.table.entries())), "export of requests")

    async def _export(self, path: Path, entries: tuple[RequestEntry, ...]) -> None:
        try:
            await write_text(path, lambda: as_jsonl(entries))
        except FileRefused as refusal:
            self.export_failed.emit(str(refusal))

    # -- look ------------------------------------------------------------------------------

    def _refresh(self) -> None:
        shown, kept = self.table.rowCount(), len(self._log)
        self._empty.setVisible(not shown)
        self._pages.setCurrentWidget(self.view if shown else self._empty)
        if kept and not shown:
            self._empty.setText("No request matches the filter.")
        else:
            self._empty.setText(
                "No requests yet.\n\nPoint a program at the server’s address: each of its "
                "requests appears here, with why its answer stopped."
            )
        words = counted(kept, "request")
        if self.table.is_filtered:
            words = f"{shown:,} of {words}"
        if self._log.is_paused:
            words += " · paused: new requests are answered but not listed"
        self._status.setText(words)
        self.export.setEnabled(bool(shown))
        self.clear.setEnabled(bool(kept))
        self._offer_dialects()

    def _offer_dialects(self) -> None:
        offered = {self.dialects.itemData(row) for row in range(self.dialects.count())}
        for name in sorted({entry.dialect for entry in self.table.entries()} - offered - {""}):
            self.dialects.addItem(name, name)
