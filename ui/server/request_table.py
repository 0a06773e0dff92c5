"""The request log as rows of a table: columns, filters, and repainting at most four times a second.

Main thread. It computes nothing while no view shows it.
"""

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
    Signal,
)

from engine import escaped, figure, seconds, sentence
from ui.server.requests import RequestEntry, RequestLog, stop_words

INTERVAL_MS = 250
ENTRY_ROLE = int(Qt.ItemDataRole.UserRole)

Index = QModelIndex | QPersistentModelIndex


class RequestColumn(IntEnum):
    """The columns, in their order."""

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


TITLES = {
    RequestColumn.TIME: "Time",
    RequestColumn.CLIENT: "Client",
    RequestColumn.DIALECT: "Route",
    RequestColumn.MODEL: "Model",
    RequestColumn.STREAM: "Stream",
    RequestColumn.STATUS: "Status",
    RequestColumn.STOP: "Stopped by",
    RequestColumn.TOKENS: "Tokens",
    RequestColumn.FIRST_TOKEN: "First token",
    RequestColumn.SPEED: "Tok/s",
    RequestColumn.TOTAL: "Total",
}
_RIGHT = (RequestColumn.TOKENS, RequestColumn.FIRST_TOKEN, RequestColumn.SPEED, RequestColumn.TOTAL)
_ALIGNMENTS = [
    (Qt.AlignmentFlag.AlignRight if column in _RIGHT else Qt.AlignmentFlag.AlignLeft)
    | Qt.AlignmentFlag.AlignVCenter
    for column in RequestColumn
]
_DISPLAY = int(Qt.ItemDataRole.DisplayRole)
_ALIGNMENT = int(Qt.ItemDataRole.TextAlignmentRole)
_TOOL_TIP = int(Qt.ItemDataRole.ToolTipRole)
_SPOKEN = int(Qt.ItemDataRole.AccessibleTextRole)


def cell(entry: RequestEntry, column: RequestColumn) -> str:
    """Return what a cell says."""
    match column:
        case RequestColumn.TIME:
            return time.strftime("%H:%M:%S", time.localtime(entry.began_at))
        case RequestColumn.CLIENT:
            return program_of(entry.agent) or entry.client
        case RequestColumn.DIALECT:
            return entry.dialect or f"{entry.method} {entry.path.partition('?')[0]}"
        case RequestColumn.MODEL:
            return entry.model or "–"
        case RequestColumn.STREAM:
            return "–" if entry.is_stream is None else "yes" if entry.is_stream else "no"
        case RequestColumn.STATUS:
            return "…" if entry.status is None else str(entry.status)
        case RequestColumn.STOP:
            return stop_words(entry) or ("answering" if entry.is_open else "–")
        case RequestColumn.TOKENS:
            return _tokens(entry)
        case RequestColumn.FIRST_TOKEN:
            return "–" if entry.first_token_s is None else seconds(entry.first_token_s)
        case RequestColumn.SPEED:
            return "–" if entry.tokens_per_s is None else figure(entry.tokens_per_s)
        case RequestColumn.TOTAL:
            return "–" if entry.took_s is None else seconds(entry.took_s)


def program_of(agent: str) -> str:
    """Return the name of a program from its User-Agent header: ``Anthropic/Python``."""
    words = agent.split()
    return words[0][:40] if words else ""


def _tokens(entry: RequestEntry) -> str:
    if not entry.ends:
        return "–"
    cached = f" ({entry.cached_tokens:,})" if entry.cached_tokens else ""
    return f"{entry.prompt_tokens:,}{cached} → {entry.output_tokens:,}"


class RequestTable(QAbstractTableModel):
    """Rows of those entries that pass the filters, newest last.

    Signals:
        entry_updated: More is known about a request that is shown; carries its ``RequestEntry``.
    """

    entry_updated = Signal(object)

    def __init__(self, log: RequestLog, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.log = log
        self._rows: list[RequestEntry] = []
        self._words: dict[str, tuple[RequestEntry, tuple[str, ...]]] = {}
        self._is_shown = False
        self._text = ""
        self._dialect = ""
        self._errors_only = False
        self._timer = QTimer(self, singleShot=True, interval=INTERVAL_MS)
        self._timer.timeout.connect(self.refresh)
        log.taken.connect(self._plan)
        log.cleared.connect(self.refresh)

    def set_shown(self, is_shown: bool) -> None:
        """Follow the log only while the table can be seen."""
        if is_shown == self._is_shown:
            return
        self._is_shown = is_shown
        if is_shown:
            self.refresh()
        else:
            self._timer.stop()

    def filter(self, text: str = "", dialect: str = "", errors_only: bool = False) -> None:
        """Show only entries that contain a text, have a dialect, and failed if that is wanted."""
        self._text, self._dialect, self._errors_only = text.casefold(), dialect, errors_only
        self.refresh()

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is set."""
        return bool(self._text or self._dialect or self._errors_only)

    def entries(self) -> Sequence[RequestEntry]:
        """Return the shown entries, oldest first."""
        return tuple(self._rows)

    def row_of(self, request_id: str) -> int:
        """Return the row of an entry, or -1 if it is not shown."""
        return next((row for row, one in enumerate(self._rows) if one.id == request_id), -1)

    def refresh(self) -> None:
        """Show the log as it is now."""
        if not self._is_shown:
            return
        self._timer.stop()
        wanted = [entry for entry in self.log if self._passes(entry)]
        self._drop_rows_not_in({entry.id for entry in wanted})
        kept = len(self._rows)
        if [one.id for one in self._rows] != [one.id for one in wanted[:kept]]:
            self.beginResetModel()
            self._rows = wanted
            self._words.clear()
            self.endResetModel()
            return
        for row in range(kept):
            if self._rows[row] is not wanted[row]:
                self._rows[row] = wanted[row]
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(RequestColumn) - 1))
                self.entry_updated.emit(wanted[row])
        if len(wanted) > kept:
            self.beginInsertRows(QModelIndex(), kept, len(wanted) - 1)
            self._rows.extend(wanted[kept:])
            self.endInsertRows()

    # -- Qt's side -------------------------------------------------------------------------

    def rowCount(self, parent: Index | None = None) -> int:
        """Return how many entries are shown."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Return how many columns there are."""
        return 0 if parent is not None and parent.isValid() else len(RequestColumn)

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = int(Qt.ItemDataRole.DisplayRole),
    ) -> Any:
        """Return a column's title."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return TITLES[RequestColumn(section)]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _ALIGNMENTS[section]
        if role == Qt.ItemDataRole.ToolTipRole and section == RequestColumn.TOKENS:
            return "Tokens of the prompt (those of them that were cached) → tokens of the answer"
        return None

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Return what a cell says."""
        # A repaint asks for about ten roles of every cell, so this compares and looks up only.
        if role == _DISPLAY:
            return self._words_of(self._rows[index.row()])[index.column()]
        if role == _ALIGNMENT:
            return _ALIGNMENTS[index.column()]
        if role == ENTRY_ROLE:
            return self._rows[index.row()]
        if role == _TOOL_TIP:
            return _tip(self._rows[index.row()], RequestColumn(index.column()))
        if role == _SPOKEN:
            column = RequestColumn(index.column())
            return f"{TITLES[column]}: {cell(self._rows[index.row()], column)}"
        return None

    # -- inside ----------------------------------------------------------------------------

    def _plan(self) -> None:
        if self._is_shown and not self._timer.isActive():
            self._timer.start()

    def _passes(self, entry: RequestEntry) -> bool:
        if self._errors_only and not entry.is_error:
            return False
        if self._dialect and entry.dialect != self._dialect:
            return False
        if not self._text:
            return True
        said = (
            entry.path,
            entry.dialect,
            entry.client,
            entry.agent,
            entry.model,
            entry.id,
            str(entry.status),
            stop_words(entry),
            *(escaped(str(end.stop.value)) for end in entry.ends),  # as it is typed
        )
        return any(self._text in one.casefold() for one in said)

    def _drop_rows_not_in(self, ids: set[str]) -> None:
        count = next((n for n, one in enumerate(self._rows) if one.id in ids), len(self._rows))
        if count:
            self.beginRemoveRows(QModelIndex(), 0, count - 1)
            for entry in self._rows[:count]:
                self._words.pop(entry.id, None)
            del self._rows[:count]
            self.endRemoveRows()

    def _words_of(self, entry: RequestEntry) -> tuple[str, ...]:
        known = self._words.get(entry.id)
        if known is None or known[0] is not entry:
            known = self._words[entry.id] = (
                entry,
                tuple(cell(entry, column) for column in RequestColumn),
            )
        return known[1]


def _tip(entry: RequestEntry, column: RequestColumn) -> str | None:
    if column is RequestColumn.CLIENT:
        return f"{entry.agent or 'Unknown client'}, from {entry.client}"
    if column is RequestColumn.DIALECT:
        return f"{entry.method} {entry.path}"
    if column is RequestColumn.STOP and entry.ends:
        return "\n".join(sentence(end) for end in entry.ends)
    return None
