"""The tab that lists every token. Main thread; catches up only while it is visible."""

import math

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence

from engine.recording.run_trace import RunTrace
from engine.values.events import TokenTrace
from engine.wording import counted, percent, quoted, seconds, visible
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import CHANNEL_NAMES, ShownRun, chip_text
from ui.inspector.tape_view import FORK_LABEL
from ui.kit.buttons import push_button
from ui.kit.fields import SearchLineEdit
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.menus import copy_from
from ui.kit.tables import TableColumn, TableModel, TableView
from ui.words import ORIGIN_NAMES

# New tokens are added in batches, not one by one. It shows only the newest rows of a
# long run, because each row that a view has measured costs time from then on.

MAX_ROWS = 2_000


def _probability(token: TokenTrace) -> str:
    return "" if token.stats is None else percent(math.exp(token.stats.logprob))


def _rank(token: TokenTrace) -> str:
    return "" if token.stats is None else f"{token.stats.rank + 1:,}"


COLUMNS = (
    TableColumn("Token", 7, lambda token: f"{token.index + 1:,}", is_number=True),
    TableColumn("Id", 7, lambda token: str(token.token_id), is_number=True),
    TableColumn(
        "Text",
        22,
        lambda token: visible(token.piece) if token.piece else chip_text(token),
        min_chars=10,
    ),
    TableColumn("Part", 10, lambda token: CHANNEL_NAMES[token.channel], is_optional=True),
    TableColumn("Origin", 20, lambda token: ORIGIN_NAMES[token.origin], min_chars=14),
    TableColumn("Time", 9, lambda token: seconds(token.time_s), is_number=True),
    TableColumn("Probability", 12, _probability, is_number=True),
    TableColumn("Rank", 5, _rank, is_number=True, is_optional=True),
    TableColumn(
        "Released", 9, lambda token: str(token.released or ""), is_number=True, is_optional=True
    ),
    TableColumn("Held Back", 15, lambda token: visible(token.held), min_chars=9),
)


class TokenTable(TableModel):
    """Shows the newest tokens of one trace."""

    def __init__(self, parent: QObject | None = None) -> None:
        stops = TableColumn("Stops Reached", 20, self._stops_reached, min_chars=13)
        super().__init__((*COLUMNS, stops), parent)
        self._trace: RunTrace | None = None
        self._filter = ""
        self._seen = 0
        self.hidden_rows = 0

    def show_trace(self, trace: RunTrace | None) -> None:
        self._trace = trace
        self._fill()

    def set_filter(self, text: str) -> None:
        """Show only tokens whose text, id, channel, origin or held text contains a text."""
        if text != self._filter:
            self._filter = text
            self._fill()

    def catch_up(self) -> None:
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
        self.append_rows(fresh)
        surplus = len(self.rows) - MAX_ROWS
        if surplus > 0:
            self.hidden_rows += surplus
            self.remove_first_rows(surplus)

    def token_at(self, row: int) -> TokenTrace | None:
        return self.rows[row] if 0 <= row < len(self.rows) else None

    def row_of(self, index: int) -> int | None:
        """Return the row of a token, if it is shown."""
        if not self.rows:
            return None
        if not self._filter:
            row = index - self.rows[0].index
            return row if 0 <= row < len(self.rows) else None
        return next((row for row, t in enumerate(self.rows) if t.index == index), None)

    # -- inside ----------------------------------------------------------------------------

    def _stops_reached(self, token: TokenTrace) -> str:
        texts = () if self._trace is None else (stop.text for stop in self._trace.rules.stops)
        pairs = zip(token.progress, texts, strict=False)
        return "  ".join(f"{quoted(text, 16)} {n}/{len(text)}" for n, text in pairs if n)

    def _fits(self, token: TokenTrace) -> bool:
        if not self._filter:
            return True
        target = self._filter.casefold()
        texts = (token.piece, token.special or "", str(token.token_id), token.held)
        names = (CHANNEL_NAMES[token.channel], ORIGIN_NAMES[token.origin])
        return any(target in text.casefold() for text in (*texts, visible(token.piece), *names))

    def _fill(self) -> None:
        tokens = [] if self._trace is None else [t for t in self._trace.tokens if self._fits(t)]
        self.hidden_rows = max(0, len(tokens) - MAX_ROWS)
        self._seen = self._trace.tokens[-1].index + 1 if self._trace and self._trace.tokens else 0
        self.show_rows(tokens[-MAX_ROWS:])


class TokensTab(InspectorTab):
    """A filter, a table, and the number of tokens that are not listed."""

    title = "Tokens"
    without_trace = "The tokens of this run were not recorded."
    has_odds = True

    token_chosen = Signal(int)  # token's number in the run, from 0
    menu_requested = Signal()  # of the chosen token

    def __init__(self) -> None:
        super().__init__()
        self.model = TokenTable(self)
        self.filter = SearchLineEdit("Filter tokens", "Clear Filter", has_icon=False)
        self.filter.setPlaceholderText("Filter by text, id, part or origin")
        self.copy = push_button("Copy as Table", "Copy the tokens as tab-separated values")
        self.table = TableView(self.model, "Tokens", is_code=True, hides_empty=True, fills=False)
        self.note = label("", "muted", 0.92)
        column(
            row((self.filter, 1), self.note, self.copy),
            (self.table, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self.filter.textChanged.connect(self._filter)
        self.copy.clicked.connect(self._copy)
        self.table.add_copy("Copy Rows", lambda rows: self.model.as_tsv(rows or None))
        self.fork = QAction(FORK_LABEL, self.table)
        self.fork.setShortcuts([QKeySequence(Qt.Key.Key_Return), QKeySequence(Qt.Key.Key_Enter)])
        self.fork.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.fork.triggered.connect(self.menu_requested)
        self.table.insertAction(self.table.actions()[0], self.fork)
        self.table.selectionModel().currentRowChanged.connect(self._choose)

    def show_run(self, shown: ShownRun | None) -> None:
        self.model.show_trace(None if shown is None else shown.trace)
        super().show_run(shown)
        if shown is not None and shown.run.is_over:
            self.table.scrollToTop()
        self._refresh_note()

    def catch_up(self) -> None:
        self._refresh_visible()

    def refresh(self) -> None:
        """Add the tokens that have arrived."""
        self.model.catch_up()
        self._refresh_note()

    def choose_token(self, index: int) -> None:
        """Select a token's row without emitting ``token_chosen``."""
        row = self.model.row_of(index)
        selection = self.table.selectionModel()
        if row is None or row == selection.currentIndex().row():
            return
        selection.blockSignals(True)
        self.table.selectRow(row)
        selection.blockSignals(False)
        self.table.scrollTo(self.model.index(row, 0))
        self.table.viewport().update()

    def _choose(self) -> None:
        token = self.model.token_at(self.table.currentIndex().row())
        if token is not None:
            self.token_chosen.emit(token.index)

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._refresh_note()

    def _refresh_note(self) -> None:
        count, hidden = self.model.rowCount(), self.model.hidden_rows
        text = counted(count, "token")
        if hidden:
            text = f"the newest {count:,} of {counted(count + hidden, 'token')}"
        elif not count and self.filter.text():
            text = "Nothing matches"
        elif not count:
            is_running = self.shown is not None and not self.shown.run.is_over
            text = "" if is_running else "No tokens were recorded"
        self.note.setText(text)
        self.copy.setEnabled(bool(count))

    def _copy(self) -> None:
        copy_from(self.copy, self.model.as_tsv())
