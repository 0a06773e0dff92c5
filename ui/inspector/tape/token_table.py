"""The tokens of a run as a table: one row for each token, the newest last, with a filter.

Main thread. Adds new tokens when it is told to, not one by one. Shows only the newest rows of a
long run, because each row that a view has measured costs time from then on.
"""

import math
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from engine import TokenTrace, quoted, seconds, visible
from engine.recording.run_trace import RunTrace
from ui.inspector.tape.tape import CHANNEL_NAMES, chip_text, percent
from ui.words.guesses import ORIGIN_NAMES

Index = QModelIndex | QPersistentModelIndex
MAX_ROWS = 2_000
COLUMNS = (
    "Token",
    "Id",
    "Text",
    "Part",
    "Origin",
    "Time",
    "Probability",
    "Rank",
    "Released",
    "Held Back",
    "Stops Reached",
)
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_NUMBERS = frozenset({0, 1, 5, 6, 7, 8})
_DISPLAY = int(Qt.ItemDataRole.DisplayRole)


class TokenTable(QAbstractTableModel):
    """Shows the newest tokens of one trace."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._trace: RunTrace | None = None
        self._shown: list[TokenTrace] = []
        self._filter = ""
        self._seen = 0
        self.hidden_rows = 0

    def show_trace(self, trace: RunTrace | None) -> None:
        """Show another run's tokens."""
        self._trace = trace
        self._fill()

    def set_filter(self, text: str) -> None:
        """Show only tokens whose text, id, channel, origin or held text contains a text."""
        if text != self._filter:
            self._filter = text
            self._fill()

    def catch_up(self) -> None:
        """Take the tokens that have arrived since the last time."""
        trace = self._trace
        if trace is None or not trace.tokens:
            return
        following = trace.tokens[-1].index + 1
        new = following - self._seen
        if new <= 0:
            return
        if new > len(trace.tokens) or new > MAX_ROWS:
            self._fill()
            return
        self._seen = following
        fresh = [t for t in list(trace.tokens)[-new:] if self._fits(t)]
        if not fresh:
            return
        first = len(self._shown)
        self.beginInsertRows(QModelIndex(), first, first + len(fresh) - 1)
        self._shown += fresh
        self.endInsertRows()
        surplus = len(self._shown) - MAX_ROWS
        if surplus > 0:
            self.beginRemoveRows(QModelIndex(), 0, surplus - 1)
            del self._shown[:surplus]
            self.hidden_rows += surplus
            self.endRemoveRows()

    def token_at(self, row: int) -> TokenTrace | None:
        """Return the token of a row."""
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def row_of(self, index: int) -> int | None:
        """Return the row of a token, if it is shown."""
        if not self._shown:
            return None
        if not self._filter:
            row = index - self._shown[0].index
            return row if 0 <= row < len(self._shown) else None
        return next((row for row, t in enumerate(self._shown) if t.index == index), None)

    def as_tsv(self, rows: list[int] | None = None) -> str:
        """Return rows, all by default, as tab-separated values with a header line."""
        wanted = range(len(self._shown)) if rows is None else rows
        lines = ["\t".join(COLUMNS)]
        lines += [
            "\t".join(cell(self._shown[row], column, self._rules) for column in range(len(COLUMNS)))
            for row in wanted
        ]
        return "\n".join(lines) + "\n"

    # -- Qt's side -------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return how many tokens are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of columns."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        """Return a cell's text or alignment."""
        if role == _DISPLAY:
            return cell(self._shown[index.row()], index.column(), self._rules)
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in _NUMBERS:
            return _RIGHT
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        """Return a column's name."""
        if orientation is Qt.Orientation.Horizontal:
            if role == _DISPLAY:
                return COLUMNS[section]
            if role == Qt.ItemDataRole.TextAlignmentRole:
                left = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
                return _RIGHT if section in _NUMBERS else left
        return None

    # -- inside ----------------------------------------------------------------------------

    @property
    def _rules(self) -> tuple[str, ...]:
        return () if self._trace is None else self._trace.rules.strings

    def _fits(self, token: TokenTrace) -> bool:
        if not self._filter:
            return True
        wanted = self._filter.casefold()
        texts = (token.piece, token.special or "", str(token.token_id), token.held)
        names = (CHANNEL_NAMES[token.channel], ORIGIN_NAMES[token.origin])
        return any(wanted in text.casefold() for text in (*texts, visible(token.piece), *names))

    def _fill(self) -> None:
        self.beginResetModel()
        tokens = [] if self._trace is None else [t for t in self._trace.tokens if self._fits(t)]
        self._shown = tokens[-MAX_ROWS:]
        self.hidden_rows = len(tokens) - len(self._shown)
        self._seen = self._trace.tokens[-1].index + 1 if self._trace and self._trace.tokens else 0
        self.endResetModel()


def cell(token: TokenTrace, column: int, rules: tuple[str, ...]) -> str:
    """Return the text of one cell."""
    stats = token.stats
    match column:
        case 0:
            return f"{token.index + 1:,}"
        case 1:
            return str(token.token_id)
        case 2:
            return visible(token.piece) if token.piece else chip_text(token)
        case 3:
            return CHANNEL_NAMES[token.channel]
        case 4:
            return ORIGIN_NAMES[token.origin]
        case 5:
            return seconds(token.time_s)
        case 6:
            return "" if stats is None else percent(math.exp(stats.logprob))
        case 7:
            return "" if stats is None else f"{stats.rank + 1:,}"
        case 8:
            return str(token.released) if token.released else ""
        case 9:
            return visible(token.held)
        case _:
            pairs = zip(token.progress, rules, strict=False)
            reached = (f"{quoted(rule, 16)} {count}/{len(rule)}" for count, rule in pairs if count)
            return "  ".join(reached)
