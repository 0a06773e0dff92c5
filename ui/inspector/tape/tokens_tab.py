"""The tab that lists every token. Main thread; catches up only while it is visible."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from engine import counted
from ui.inspector.run.shown_run import ShownRun
from ui.inspector.tape.tables import RowsView
from ui.inspector.tape.token_table import TokenTable
from ui.kit.system.clipboard import copy_from
from ui.kit.text.labels import label

_WIDTHS = (7, 7, 22, 10, 20, 9, 12, 8, 6, 15)


class TokensTab(QWidget):
    """A filter, a table, and the number of tokens that are not listed.

    Signals:
        token_chosen: A row was chosen; carries the token's number in the run, from 0.
    """

    token_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.model = TokenTable(self)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter by text, id, part or origin")
        self.filter.setAccessibleName("Filter tokens")
        self.filter.setClearButtonEnabled(True)
        self.copy = QPushButton("Copy as Table")
        self.copy.setAccessibleName("Copy the tokens as tab-separated values")
        self.table = RowsView(self.model, "Tokens", is_code=True, widths=_WIDTHS)
        self.note = label("", "muted", 0.92)
        top = QHBoxLayout()
        top.addWidget(self.filter, 1)
        top.addWidget(self.note)
        top.addWidget(self.copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 12, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(top)
        layout.addWidget(self.table, 1)
        self.filter.textChanged.connect(self._filter)
        self.copy.clicked.connect(self._copy)
        self.table.add_copy("Copy Rows", lambda rows: self.model.as_tsv(rows or None))
        self.table.selectionModel().currentRowChanged.connect(self._choose)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run's tokens."""
        self.model.show_trace(None if shown is None else shown.trace)
        self._say()

    def catch_up(self) -> None:
        """Add the tokens that have arrived, if the tab can be seen."""
        if not self.isVisible():
            return
        bar = self.table.verticalScrollBar()
        is_at_end = bar.value() >= bar.maximum()
        self.model.catch_up()
        self._say()
        if is_at_end:
            self.table.scrollToBottom()

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

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up on what arrived while it was hidden."""
        super().showEvent(event)
        self.catch_up()

    def _choose(self) -> None:
        token = self.model.token_at(self.table.currentIndex().row())
        if token is not None:
            self.token_chosen.emit(token.index)

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._say()

    def _say(self) -> None:
        count, hidden = self.model.rowCount(), self.model.hidden_rows
        words = counted(count, "token")
        if hidden:
            words = f"the newest {count:,} of {counted(count + hidden, 'token')}"
        elif not count:
            words = "nothing matches" if self.filter.text() else "no tokens were recorded"
        self.note.setText(words)
        self.copy.setEnabled(bool(count))

    def _copy(self) -> None:
        copy_from(self.copy, self.model.as_tsv())
        self.copy.setText("Copied")
        self.copy.setEnabled(True)
