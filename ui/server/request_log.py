"""The requests of other programs, like the network panel of a browser. Main thread."""

from enum import IntEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QWidget

from engine.values.verdict import sentence
from engine.wording import counted, escaped, figure, seconds
from ui.kit.buttons import (
    ChipButton,
    Choice,
    EmptyState,
    IconButton,
    UndoBar,
    copy_button,
    push_button,
)
from ui.kit.dates import format_time
from ui.kit.dialogs import choose_target
from ui.kit.fields import SearchLineEdit
from ui.kit.labels import label
from ui.kit.layouts import card, column, row
from ui.kit.rows import DISPLAY, Index
from ui.kit.tables import NONE, TableColumn, TableModel, TableView
from ui.kit.tasks import finish_tasks, start_task, write_file
from ui.kit.theme import fixed_font
from ui.server.requests import RequestEntry, RequestLog, as_jsonl, program_of, stop_label
from ui.words import FileRefused, display_name

STOP = "Stop"
ENTRY_ROLE = int(Qt.ItemDataRole.UserRole)

_ALL = "All Routes"
_JSON_LINES = "JSON Lines (*.jsonl)"


class RequestColumn(IntEnum):
    """The columns of the window itself, in their order."""

    TIME = 0
    CLIENT = 1
    DIALECT = 2
    MODEL = 3
    STREAM = 4
    STATUS = 5
    STOP = 6
    TOKENS = 7
    CACHED = 8
    FIRST_TOKEN = 9
    SPEED = 10
    TOTAL = 11


def _tokens(entry: RequestEntry) -> str:
    if not (entry.ends or entry.running):
        return NONE
    return f"{entry.prompt_tokens:,} → {entry.output_tokens:,}"


def _rate(tokens_per_s: float | None) -> str:
    return NONE if tokens_per_s is None else figure(tokens_per_s)


def _optional_seconds(value_s: float | None) -> str:
    return NONE if value_s is None else seconds(value_s)


COLUMNS = (
    TableColumn("Time", 9, lambda entry: format_time(entry.began_at, has_seconds=True)),
    TableColumn("Client", 16, lambda entry: program_of(entry.agent) or entry.client, min_chars=11),
    TableColumn(
        "Route",
        18,
        lambda entry: entry.dialect or f"{entry.method} {entry.path.partition('?')[0]}",
        min_chars=14,
    ),
    TableColumn(
        "Model",
        20,
        lambda entry: display_name(entry.model) or entry.requested_model or NONE,
        min_chars=12,
        is_kept=True,
    ),
    TableColumn(
        "Stream",
        6,
        lambda entry: NONE if entry.is_stream is None else "yes" if entry.is_stream else "no",
        is_optional=True,
    ),
    TableColumn("Status", 6, lambda entry: "…" if entry.status is None else str(entry.status)),
    TableColumn(
        "Stopped By",
        16,
        lambda entry: stop_label(entry) or ("answering" if entry.is_open else NONE),
        min_chars=11,
        is_kept=True,
    ),
    TableColumn(
        "Tokens",
        12,
        _tokens,
        is_number=True,
        tooltip="Tokens of the prompt → tokens of the answer",
        min_chars=9,
        is_kept=True,
    ),
    TableColumn(
        "Cached",
        6,
        lambda entry: f"{entry.cached_tokens:,}" if entry.cached_tokens else NONE,
        is_number=True,
        tooltip="Tokens of the prompt that were cached",
        is_optional=True,
    ),
    TableColumn(
        "First Token",
        8,
        lambda entry: _optional_seconds(entry.first_token_s),
        is_number=True,
        is_optional=True,
        is_kept=True,
    ),
    TableColumn(
        "Tok/s",
        6,
        lambda entry: _rate(entry.tokens_per_s),
        is_number=True,
        is_optional=True,
        is_kept=True,
    ),
    TableColumn(
        "Total",
        7,
        lambda entry: STOP if entry.running else _optional_seconds(entry.took_s),
        is_number=True,
        is_kept=True,
    ),
)
"""The columns, in the order of ``RequestColumn``."""


class RequestTable(TableModel):
    """Rows of those entries that pass the filters, newest last."""

    entry_updated = Signal(object)  # RequestEntry
    refreshed = Signal()

    def __init__(self, log: RequestLog, parent: QObject | None = None) -> None:
        super().__init__(COLUMNS, parent)
        self.log = log
        self._is_stale = False
        self._is_shown = False
        self.is_refreshing = False  # rows move without a choice of the user
        self._text = ""
        self._dialect = ""
        self._errors_only = False
        self._timer = QTimer(self, interval=250)
        self._timer.timeout.connect(self._tick)
        log.taken.connect(self._note_change)
        log.replaced.connect(self.refresh)

    def set_shown(self, is_shown: bool) -> None:
        if is_shown == self._is_shown:
            return
        self._is_shown = is_shown
        if is_shown:
            self._timer.start()
            self.refresh()
        else:
            self._timer.stop()

    def filter(self, text: str = "", dialect: str = "", errors_only: bool = False) -> None:
        """Show only entries that contain a text, have a dialect, and failed if that is wanted."""
        self._text, self._dialect, self._errors_only = text.casefold(), dialect, errors_only
        self.refresh()

    @property
    def is_filtered(self) -> bool:
        return bool(self._text or self._dialect or self._errors_only)

    def row_of(self, request_id: str) -> int:
        return next((n for n, entry in enumerate(self.rows) if entry.id == request_id), -1)

    def refresh(self) -> None:
        if not self._is_shown:
            return
        self._is_stale = False
        self.is_refreshing = True
        self._show([entry for entry in self.log if self._passes(entry)])
        self.is_refreshing = False
        self.refreshed.emit()

    def text(self, row: RequestEntry, column: int) -> str:
        if column == RequestColumn.SPEED and row.running:
            return _rate(self.log.rate_of(row))
        return super().text(row, column)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if role == ENTRY_ROLE:
            return self.rows[index.row()]
        return super().data(index, role)

    def tooltip(self, row: RequestEntry, column: int) -> str:
        match column:
            case RequestColumn.CLIENT:
                return f"{row.agent or 'Unknown client'}, from {row.client}"
            case RequestColumn.DIALECT:
                return f"{row.method} {row.path}"
            case RequestColumn.MODEL:
                is_another = row.requested_model not in ("", row.model)
                requested = f"Requested: {row.requested_model}" if is_another else ""
                return "\n".join(filter(None, (row.model, requested)))
            case RequestColumn.TOTAL if row.running:
                return "Stop"
            case RequestColumn.STOP:
                return "\n".join(sentence(end) for end in row.ends)
        return ""

    def color(self, row: RequestEntry, column: int) -> str:
        """Return the color of the request's outcome, which the text also names."""
        if column == RequestColumn.TOTAL:
            return "match" if row.running else "text"
        if row.is_open:
            return "muted"
        if column == RequestColumn.STATUS:
            return "fault" if row.is_error else "done"
        is_by_rule = bool(row.ends) and row.ends[0].stop.rule_index is not None
        return "match" if column == RequestColumn.STOP and is_by_rule else "text"

    def _show(self, target: list[RequestEntry]) -> None:
        ids = {entry.id for entry in target}
        gone = next((n for n, entry in enumerate(self.rows) if entry.id in ids), len(self.rows))
        if gone:
            self.remove_first_rows(gone)
        kept = len(self.rows)
        if [entry.id for entry in self.rows] != [entry.id for entry in target[:kept]]:
            self.show_rows(target)
            return
        for number, entry in enumerate(target[:kept]):
            if self.rows[number] is not entry:
                self.rows[number] = entry
                self._emit_changed(number)
                self.entry_updated.emit(entry)
        if len(target) > kept:
            self.append_rows(target[kept:])

    def _tick(self) -> None:
        if self._is_stale:
            self.refresh()
        for number, entry in enumerate(self.rows):
            if entry.running:
                self._emit_changed(number)

    def _emit_changed(self, number: int) -> None:
        self.dataChanged.emit(self.index(number, 0), self.index(number, len(COLUMNS) - 1))

    def _note_change(self) -> None:
        self._is_stale = True

    def _passes(self, entry: RequestEntry) -> bool:
        if self._errors_only and not entry.is_error:
            return False
        if self._dialect and entry.dialect != self._dialect:
            return False
        if not self._text:
            return True
        parts = (
            entry.path,
            entry.dialect,
            entry.client,
            entry.agent,
            entry.model,
            entry.id,
            str(entry.status),
            stop_label(entry),
            *(escaped(str(end.stop.value)) for end in entry.ends),  # as it is typed
        )
        return any(self._text in text.casefold() for text in parts)


class RequestLogPanel(QWidget):
    """Filters, the table, and what to do with it."""

    menu_requested = Signal(object, QPoint)  # RequestEntry, global position
    entry_chosen = Signal(object)  # RequestEntry
    entry_changed = Signal(object)  # RequestEntry, or None once it is gone
    export_failed = Signal(str)  # reason in words

    def __init__(self, log: RequestLog) -> None:
        super().__init__()
        self._log = log
        self._chosen = ""
        self.table = RequestTable(log, self)
        self.search = SearchLineEdit("Filter requests", "Clear Filter", has_icon=False)
        self.search.setPlaceholderText("Filter by client, path, model, status or stop")
        self.dialects = Choice("Routes to show", [("", _ALL)])
        self.dialects.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToContents)
        # As wide as the longest route from the start: it does not grow with the first request.
        # Characters as wide as Qt counts them: more than "Chat Completions" takes.
        self.dialects.setMinimumContentsLength(14)
        self.errors_only = ChipButton("fault", "Errors Only", is_toggle=True)
        self.pause = ChipButton("pause", "Pause", is_toggle=True)
        self.export = IconButton("report", "Save the shown requests as JSON Lines")
        self.clear = IconButton("trash", "Clear Answered Requests")
        self.undo_bar = UndoBar()
        self.view = TableView(self.table, "Requests", hides_empty=True)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.view.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.start = push_button("Start Local Server", kind="primary")
        self.command = label()
        self.command.setFont(fixed_font(self.command.font(), 0.93))
        self.command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        copy = copy_button("Copy the command", self.command.text)
        top = Qt.AlignmentFlag.AlignTop
        line = row(self.command, (copy, 0, top), spacing=8)
        self._example = card(line, margins=(16, 12, 8, 12))
        self.show_all = push_button("Clear Filters")
        self.empty = EmptyState(self._example, self.start, self.show_all)
        self._advice, self._is_off = "", False
        self._status = label("", "faint", 0.92)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    async def finish(self) -> None:
        await finish_tasks(self)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.table.set_shown(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.table.set_shown(False)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        buttons = (self.dialects, self.errors_only, self.pause, self.export, self.clear)
        column(
            row((self.search, 1), *buttons, spacing=8),
            (self.view, 1),
            (self.empty, 1),
            self.undo_bar,
            self._status,
            spacing=8,
            on=self,
        )

    def _connect_signals(self) -> None:
        self.show_all.clicked.connect(self._clear_filters)
        self.search.textChanged.connect(self._filter)
        self.dialects.currentIndexChanged.connect(self._filter)
        self.errors_only.toggled.connect(self._filter)
        self.pause.toggled.connect(self._log.set_paused)
        self.clear.clicked.connect(self._clear)
        QShortcut(QKeySequence.StandardKey.Undo, self, self._undo_clearing)
        self.export.clicked.connect(self._choose_file)
        self._log.pause_changed.connect(self._refresh)
        self.table.refreshed.connect(self._refresh)
        self.table.entry_updated.connect(self._follow_chosen)
        self.table.modelReset.connect(self._choose_again)
        self.table.rowsRemoved.connect(self._miss_chosen)
        self.view.selectionModel().currentRowChanged.connect(self._choose)
        self.view.clicked.connect(self._click)
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.customContextMenuRequested.connect(self._want_menu)
        self.view.row_opened.connect(lambda: self._choose(self.view.currentIndex()))

    # -- intents ---------------------------------------------------------------------------

    def _filter(self) -> None:
        self.table.filter(
            self.search.text().strip(),
            self.dialects.currentData() or "",
            self.errors_only.isChecked(),
        )

    def _clear(self) -> None:
        removed = self._log.clear()
        text = f"Cleared {counted(len(removed), 'request')}"
        self.undo_bar.offer(text, lambda: self._log.restore(removed))

    def _undo_clearing(self) -> None:
        if self.undo_bar.isVisible():
            self.undo_bar.button.click()

    def _clear_filters(self) -> None:
        self.search.clear()
        self.dialects.setCurrentIndex(0)
        self.errors_only.setChecked(False)

    def _choose(self, current: Index) -> None:
        if self.table.is_refreshing or not current.isValid():
            return
        entry = self.table.data(current, ENTRY_ROLE)
        if entry is not None:
            self._chosen = entry.id
            self.entry_chosen.emit(entry)

    def _click(self, index: Index) -> None:
        entry = self.table.data(index, ENTRY_ROLE)
        if index.column() == RequestColumn.TOTAL and entry is not None and entry.running:
            self._log.stop(entry)
        else:
            self._choose(index)

    def _want_menu(self, position: QPoint) -> None:
        """Ask for the menu of the row at a place, or of the current one for the key."""
        index = self.view.indexAt(position)
        if not index.isValid():
            index = self.view.currentIndex()
            position = self.view.visualRect(index).bottomLeft()
        entry = self.table.data(index, ENTRY_ROLE) if index.isValid() else None
        if entry is not None:
            self.menu_requested.emit(entry, self.view.viewport().mapToGlobal(position))

    def _choose_again(self) -> None:
        number = self.table.row_of(self._chosen)
        if number >= 0:
            self.view.selectRow(number)
            self._follow_chosen(self.table.rows[number])
        else:
            self._miss_chosen()

    def _miss_chosen(self) -> None:
        """Emit ``entry_changed`` with None if the chosen request is no longer shown."""
        if self._chosen and self.table.row_of(self._chosen) < 0:
            self._chosen = ""
            self.view.selectionModel().clear()  # Qt made the next row the current one
            self.entry_changed.emit(None)

    def _follow_chosen(self, entry: RequestEntry) -> None:
        if entry.id == self._chosen:
            self.entry_changed.emit(entry)

    def _choose_file(self) -> None:
        title = "Save Shown Requests"
        choose_target(self, title, self.export_to, name="requests.jsonl", filters=[_JSON_LINES])

    def export_to(self, path: Path) -> None:
        start_task(self, self._export(path, tuple(self.table.rows)), "export of requests")

    async def _export(self, path: Path, entries: tuple[RequestEntry, ...]) -> None:
        try:
            await write_file(path, lambda: as_jsonl(entries))
        except FileRefused as refusal:
            self.export_failed.emit(str(refusal))

    # -- look ------------------------------------------------------------------------------

    def show_next_step(self, advice: str, command: str = "", *, is_off: bool = False) -> None:
        """Show in the empty list how its first request comes about."""
        self._advice, self._is_off = advice, is_off
        self.command.setText(command)
        self._refresh()

    def _refresh(self) -> None:
        shown, kept = self.table.rowCount(), len(self._log)
        self.view.setVisible(bool(shown))
        self.empty.setVisible(not shown)
        if kept:
            self.empty.show_text("No Matching Requests", "")
        else:
            self.empty.show_text("No Requests", self._advice)
        self._example.setVisible(not kept and bool(self.command.text()))
        self.start.setVisible(not kept and self._is_off)
        self.show_all.setVisible(bool(kept))
        text = counted(kept, "request")
        if self.table.is_filtered:
            text = f"{shown:,} of {text}"
        if self._log.is_paused:
            text += " · Paused (requests are still answered)"
        self._status.setText(text if kept or self._log.is_paused else "")
        self.export.setEnabled(bool(shown))
        self.clear.setEnabled(any(not entry.is_open for entry in self._log))
        self._offer_dialects()

    def _offer_dialects(self) -> None:
        offered = {self.dialects.itemData(n) for n in range(self.dialects.count())}
        for name in sorted({entry.dialect for entry in self._log} - offered - {""}):
            self.dialects.addItem(name, name)
