"""The requests of other programs, like the network panel of a browser. Main thread."""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QHideEvent, QPalette, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QStackedLayout, QStyleOptionViewItem, QWidget

from engine import counted, escaped, figure, seconds, sentence
from ui.kit.buttons import ChipButton, Choice, IconButton
from ui.kit.dates import format_time
from ui.kit.dialogs import choose_target
from ui.kit.fields import SearchLineEdit
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.rows import DISPLAY, NO_PARENT, CellDelegate, Index, RowsView, TableColumn
from ui.kit.tasks import finish_tasks, start_task, write_text
from ui.kit.theme import current_theme
from ui.server.requests import RequestEntry, RequestLog, as_jsonl, program_of, stop_label
from ui.words import FileRefused

STOP = "Stop"
ENTRY_ROLE = int(Qt.ItemDataRole.UserRole)

_ALIGNMENT = int(Qt.ItemDataRole.TextAlignmentRole)
_TOOL_TIP = int(Qt.ItemDataRole.ToolTipRole)
_SPOKEN = int(Qt.ItemDataRole.AccessibleTextRole)
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
    FIRST_TOKEN = 8
    SPEED = 9
    TOTAL = 10


def _tokens(entry: RequestEntry) -> str:
    if not (entry.ends or entry.running):
        return "–"
    cached = f" ({entry.cached_tokens:,})" if entry.cached_tokens else ""
    return f"{entry.prompt_tokens:,}{cached} → {entry.output_tokens:,}"


def _speed(entry: RequestEntry, rate: float | None) -> str:
    rate = entry.tokens_per_s if rate is None else rate
    return "–" if rate is None else figure(rate)


def _total(entry: RequestEntry, _: float | None) -> str:
    if entry.running:
        return STOP
    return _optional_seconds(entry.took_s)


def _optional_seconds(value_s: float | None) -> str:
    return "–" if value_s is None else seconds(value_s)


COLUMNS = (
    TableColumn("Time", 11, lambda entry, _: format_time(entry.began_at, has_seconds=True)),
    TableColumn("Client", 16, lambda entry, _: program_of(entry.agent) or entry.client),
    TableColumn(
        "Route",
        19,
        lambda entry, _: entry.dialect or f"{entry.method} {entry.path.partition('?')[0]}",
    ),
    TableColumn("Model", 15, lambda entry, _: entry.model or entry.requested_model or "–"),
    TableColumn(
        "Stream",
        8,
        lambda entry, _: "–" if entry.is_stream is None else "yes" if entry.is_stream else "no",
    ),
    TableColumn("Status", 8, lambda entry, _: "…" if entry.status is None else str(entry.status)),
    TableColumn(
        "Stopped By",
        16,
        lambda entry, _: stop_label(entry) or ("answering" if entry.is_open else "–"),
    ),
    TableColumn("Tokens", 14, lambda entry, _: _tokens(entry), is_number=True),
    TableColumn(
        "First Token", 11, lambda entry, _: _optional_seconds(entry.first_token_s), is_number=True
    ),
    TableColumn("Tok/s", 8, _speed, is_number=True),
    TableColumn("Total", 9, _total, is_number=True),
)
"""The columns, in the order of ``RequestColumn``; a cell’s text is made of its request and rate."""


class RequestTable(QAbstractTableModel):
    """Rows of those entries that pass the filters, newest last."""

    entry_updated = Signal(object)  # RequestEntry
    refreshed = Signal()

    def __init__(self, log: RequestLog, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.log = log
        self._rows: list[RequestEntry] = []
        self._is_stale = False
        self._is_shown = False
        self._text = ""
        self._dialect = ""
        self._errors_only = False
        self._timer = QTimer(self, interval=250)
        self._timer.timeout.connect(self._tick)
        log.taken.connect(self._note_change)
        log.cleared.connect(self.refresh)

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

    def entries(self) -> Sequence[RequestEntry]:
        return tuple(self._rows)

    def row_of(self, request_id: str) -> int:
        return next((n for n, entry in enumerate(self._rows) if entry.id == request_id), -1)

    def refresh(self) -> None:
        if not self._is_shown:
            return
        self._is_stale = False
        self._show([entry for entry in self.log if self._passes(entry)])
        self.refreshed.emit()

    def _show(self, target: list[RequestEntry]) -> None:
        self._drop_rows_not_in({entry.id for entry in target})
        kept = len(self._rows)
        if [entry.id for entry in self._rows] != [entry.id for entry in target[:kept]]:
            self.beginResetModel()
            self._rows = target
            self.endResetModel()
            return
        for number, entry in enumerate(target[:kept]):
            if self._rows[number] is not entry:
                self._rows[number] = entry
                self._emit_changed(number)
                self.entry_updated.emit(entry)
        if len(target) > kept:
            self.beginInsertRows(QModelIndex(), kept, len(target) - 1)
            self._rows.extend(target[kept:])
            self.endInsertRows()

    # -- Qt's side -------------------------------------------------------------------------

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section].title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return COLUMNS[section].alignment
        if role == Qt.ItemDataRole.ToolTipRole and section == RequestColumn.TOKENS:
            return "Tokens of the prompt (those of them that were cached) → tokens of the answer"
        return None

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if role == DISPLAY:
            return self._cell(self._rows[index.row()], index.column())
        if role == _ALIGNMENT:
            return COLUMNS[index.column()].alignment
        if role == ENTRY_ROLE:
            return self._rows[index.row()]
        if role == _TOOL_TIP:
            return _tip(self._rows[index.row()], index.column())
        if role == _SPOKEN:
            text = self._cell(self._rows[index.row()], index.column())
            return f"{COLUMNS[index.column()].title}: {text}"
        return None

    # -- inside ----------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_stale:
            self.refresh()
        for number, entry in enumerate(self._rows):
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

    def _drop_rows_not_in(self, ids: set[str]) -> None:
        count = next((n for n, entry in enumerate(self._rows) if entry.id in ids), len(self._rows))
        if count:
            self.beginRemoveRows(QModelIndex(), 0, count - 1)
            del self._rows[:count]
            self.endRemoveRows()

    def _cell(self, entry: RequestEntry, column: int) -> str:
        rate = self.log.rate_of(entry) if column == RequestColumn.SPEED else None
        return COLUMNS[column].text(entry, rate)


def _tip(entry: RequestEntry, column: int) -> str | None:
    if column == RequestColumn.CLIENT:
        return f"{entry.agent or 'Unknown client'}, from {entry.client}"
    if column == RequestColumn.DIALECT:
        return f"{entry.method} {entry.path}"
    if column == RequestColumn.MODEL and entry.requested_model not in ("", entry.model):
        return f"It asked for {entry.requested_model}"
    if column == RequestColumn.TOTAL and entry.running:
        return "Stop"
    if column == RequestColumn.STOP and entry.ends:
        return "\n".join(sentence(end) for end in entry.ends)
    return None


class RequestView(RowsView):
    """The table; it follows the newest row as long as that row is in sight."""

    def __init__(self, model: RequestTable) -> None:
        super().__init__(model, "Requests", COLUMNS)
        self.setItemDelegate(_ToneDelegate(self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self._follows = True
        model.rowsAboutToBeInserted.connect(self._note_end)
        model.rowsInserted.connect(self._follow_end)

    def _note_end(self) -> None:
        bar = self.verticalScrollBar()
        self._follows = bar.value() >= bar.maximum() - 1

    def _follow_end(self) -> None:
        if self._follows:
            self.scrollToBottom()


class _ToneDelegate(CellDelegate):
    """Colors status and stop by the request's outcome, which the text also names."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        entry = index.data(ENTRY_ROLE)
        color = self._color_of(entry, index.column())
        if color is not None:
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, QColor(color))

    def _color_of(self, entry: RequestEntry, column: int) -> str | None:
        colors = current_theme().colors
        if column == RequestColumn.TOTAL:
            return colors.link if entry.running else None
        if entry.is_error:
            return colors.fault
        if entry.is_open:
            return colors.muted
        if column == RequestColumn.STATUS:
            return colors.done
        is_by_rule = bool(entry.ends) and entry.ends[0].stop.rule_index is not None
        return colors.match if column == RequestColumn.STOP and is_by_rule else None


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
        self._is_choosing_again = False
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
        self.clear = IconButton("trash", "Clear the list of requests")
        self.view = RequestView(self.table)
        self._empty = label("", "muted", 1.0, is_wrapped=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
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
        holder = QWidget()
        holder.setObjectName("request_holder")
        self._pages = QStackedLayout(holder)
        self._pages.setStackingMode(QStackedLayout.StackingMode.StackAll)
        self._pages.addWidget(self.view)
        self._pages.addWidget(self._empty)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._empty.setContentsMargins(40, 0, 40, 0)
        column(
            row((self.search, 1), *buttons, spacing=8),
            (holder, 1),
            self._status,
            spacing=8,
            on=self,
        )

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._filter)
        self.dialects.currentIndexChanged.connect(self._filter)
        self.errors_only.toggled.connect(self._filter)
        self.pause.toggled.connect(self._log.set_paused)
        self.clear.clicked.connect(self._log.clear)
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
        self.view.activated.connect(self._choose)

    # -- intents ---------------------------------------------------------------------------

    def _filter(self) -> None:
        self.table.filter(
            self.search.text().strip(),
            self.dialects.currentData() or "",
            self.errors_only.isChecked(),
        )

    def _choose(self, current: Index) -> None:
        if self._is_choosing_again or not current.isValid():
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
            self._is_choosing_again = True
            self.view.selectRow(number)
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
        start_task(self, self._export(path, tuple(self.table.entries())), "export of requests")

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
        text = counted(kept, "request")
        if self.table.is_filtered:
            text = f"{shown:,} of {text}"
        if self._log.is_paused:
            text += " · Paused (requests are still answered)"
        self._status.setText(text)
        self.export.setEnabled(bool(shown))
        self.clear.setEnabled(bool(kept))
        self._offer_dialects()

    def _offer_dialects(self) -> None:
        offered = {self.dialects.itemData(n) for n in range(self.dialects.count())}
        for name in sorted({entry.dialect for entry in self._log} - offered - {""}):
            self.dialects.addItem(name, name)
