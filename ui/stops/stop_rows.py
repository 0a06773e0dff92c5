"""The rows of a stop list as a table view shows and drags them. Main thread."""

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from ui.records.conversations import StopEntry
from ui.stops import stop_cells as cells
from ui.stops.stop_cells import StopColumn
from ui.stops.stop_history import StopHistory
from ui.stops.stop_remarks import Remark, remarks
from ui.stops.stop_tokens import StopTokens, Tokenize
from ui.words.visible import needs_escapes

Index = QModelIndex | QPersistentModelIndex

_DISPLAY = int(Qt.ItemDataRole.DisplayRole)
_ROW_MIME = "application/x-fullstop-stop-row"


class StopRows(QAbstractTableModel):
    """Rows of stop sequences: enabled, sequence, its tokens in this model, remarks.

    It only shows rows: a subclass sets and moves them.

    Signals:
        remarks_changed: The remarks may have changed, because the conversation or model did.
    """

    remarks_changed = Signal()

    def __init__(self, entries: Iterable[StopEntry] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries = list(entries)
        self._with_escapes = True
        self._tokens = StopTokens(self)
        self._tokens.changed.connect(self._repaint)
        self._history = StopHistory()
        self._special_tokens: frozenset[str] = frozenset()

    # -- reading ---------------------------------------------------------------------------

    def entries(self) -> list[StopEntry]:
        """Return the rows, in their order."""
        return list(self._entries)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of sequences."""
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of columns."""
        return 0 if parent.isValid() else len(StopColumn)

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        """Return a cell: white space visible for display, the input text for editing."""
        if not index.isValid() or index.row() >= len(self._entries):
            return None
        row = index.row()
        entry = self._entries[row]
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return cells.spoken(entry)
        match StopColumn(index.column()):
            case StopColumn.ENABLED:
                return cells.enabled_cell(entry, role)
            case StopColumn.SEQUENCE:
                with_escapes = self.edits_with_escapes(row)
                return cells.sequence_cell(entry.sequence, role, with_escapes=with_escapes)
            case StopColumn.SCOPE:
                return cells.scope_cell(entry.scope, role)
            case StopColumn.TOKENS:
                return cells.tokens_cell(self._tokens, entry.sequence, role)
            case StopColumn.FIRED:
                return cells.fired_cell(self._history, entry.sequence, role)
            case StopColumn.REMARK:
                return cells.remark_cell(self.remarks_on(row), role)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        """Return a column's title or a row's number."""
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return section + 1
        return cells.TITLES[section]

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return flags that let rows be switched, edited and dragged, and dropped between rows."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags |= Qt.ItemFlag.ItemIsDragEnabled
        if index.column() == StopColumn.ENABLED:
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        if index.column() == StopColumn.SEQUENCE:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    @property
    def with_escapes(self) -> bool:
        r"""Whether input is read with escapes (``\n`` is a line break) or as typed."""
        return self._with_escapes

    def edits_with_escapes(self, row: int) -> bool:
        """Whether a row is edited with escapes: because of the mode, or because it needs them."""
        return self._with_escapes or needs_escapes(self._entries[row].sequence)

    def remarks_on(self, row: int) -> list[Remark]:
        """Return the remarks on a row, most important first."""
        return remarks(self._entries, row, self._history, self._special_tokens)

    # -- model and history -----------------------------------------------------------------

    def set_tokenizer(self, tokenize: Tokenize | None) -> None:
        """Set the function that counts tokens; None while no model is loaded."""
        self._tokens.use(tokenize, self._sequences())

    def set_special_tokens(self, texts: Iterable[str]) -> None:
        """Set the texts of the model's special tokens."""
        self._special_tokens = frozenset(texts)
        self._repaint()
        self.remarks_changed.emit()

    def set_history(self, history: StopHistory) -> None:
        """Set the history from which counts and remarks are computed."""
        self._history = history
        self._repaint()
        self.remarks_changed.emit()

    # -- drag and drop ---------------------------------------------------------------------

    def supportedDropActions(self) -> Qt.DropAction:
        """Return the only action: rows are moved, never copied."""
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        """Return the type of a dragged row."""
        return [_ROW_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """Return the dragged row."""
        data = QMimeData()
        if indexes:
            data.setData(_ROW_MIME, str(indexes[0].row()).encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index
    ) -> bool:
        """Move the dragged row. Returns False so that the view does not remove it as well."""
        if action == Qt.DropAction.MoveAction and data.hasFormat(_ROW_MIME):
            source = int(bytes(data.data(_ROW_MIME).data()))
            gap = row if row >= 0 else (parent.row() if parent.isValid() else len(self._entries))
            self.move(source, gap - 1 if gap > source else gap)
        return False

    def move(self, row: int, to_row: int) -> None:
        """Move a row to the place of ``to_row``."""
        raise NotImplementedError

    # -- for the subclass ------------------------------------------------------------------

    def _sequences(self) -> list[str]:
        return [entry.sequence for entry in self._entries]

    def _repaint(self) -> None:
        if self._entries:
            last = self.index(len(self._entries) - 1, len(StopColumn) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
