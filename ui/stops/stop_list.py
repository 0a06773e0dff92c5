"""The stop list of a conversation: its entries, their tokens, their history, undo. Main thread."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QMimeData, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QUndoStack

from engine.stopping.rules import StopOption, StopScope
from engine.wording import counted, escaped, quoted, visible
from ui.kit.commands import ValueChange
from ui.kit.labels import plain_tooltip
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.records.stop_entries import StopEntry
from ui.records.stop_files import refusal
from ui.stops.stop_rows import (
    ENDED_ANSWER,
    SCOPE_LABELS,
    CheckedStop,
    Remark,
    StopColumn,
    StopHistory,
    StopTokens,
    Tokenize,
    remarks,
    spoken,
)
from ui.words import needs_escapes, unescaped

TITLES = ("On", "Sequence", "Scope", "Hits", "Note")
_ROW_MIME = "application/x-fullstop-stop-row"
_SHORT_CHARS = 24  # a longer sequence may be cut in its row
_TOOL_TIP = Qt.ItemDataRole.ToolTipRole
EMPTY_MESSAGE = "An empty sequence would stop every answer at once. Type at least one character."


def typed_sequence(typed: str, *, with_escapes: bool) -> str:
    r"""Return the sequence that the input stands for."""
    if not typed:
        raise ValueError(EMPTY_MESSAGE)
    return unescaped(typed) if with_escapes else typed


# Sequences are kept as strings exactly as typed: never trimmed, never split.


class StopListModel(QAbstractTableModel):
    """Rows of stop sequences, with tokens, uses and remarks; every change can be undone.

    Attributes:
        fired: The sequence that ended the shown answer; empty for none.
    """

    remarks_changed = Signal()
    edited = Signal()
    removed = Signal(str)  # in words
    row_changed = Signal(int)  # row, -1 for none
    refused = Signal(str)  # reason in words
    mode_changed = Signal(bool)  # whether escapes are read

    def __init__(
        self,
        entries: Iterable[StopEntry] = (),
        parent: QObject | None = None,
        undo_stack: QUndoStack | None = None,
    ) -> None:
        super().__init__(parent)
        self._entries = list(entries)
        self._with_escapes = True
        self._tokens = StopTokens(self)
        self._tokens.changed.connect(self._repaint)
        self._history = StopHistory()
        self._special_tokens: frozenset[str] = frozenset()
        self.undo_stack = QUndoStack(self) if undo_stack is None else undo_stack
        self.pending_input = self.fired = ""

    # -- intents ---------------------------------------------------------------------------

    def set_with_escapes(self, with_escapes: bool) -> None:
        if with_escapes != self._with_escapes:
            self._with_escapes = with_escapes
            self.mode_changed.emit(with_escapes)

    def add(self, typed: str) -> bool:
        sequence = self._read(typed, self._with_escapes)
        if sequence is None:
            return False
        return self.add_sequence(sequence)

    def add_sequence(self, sequence: str) -> bool:
        """Append a sequence, or enable it if the list already has it."""
        for row, entry in enumerate(self._entries):
            if entry.stop.text == sequence and not entry.is_enabled:
                self.set_enabled(row, True)
                return True
        after = [*self._entries, StopEntry.of(sequence)]
        if not self._accepts(after):
            return False
        self._push(f"Add {quoted(sequence, 16)}", after, len(after) - 1)
        return True

    def add_all(self, entries: Iterable[StopEntry], what: str) -> bool:
        """Append the rows with new sequences, as one change; returns whether they were accepted."""
        there = {entry.stop.text for entry in self._entries}
        new: dict[str, StopEntry] = {}
        for entry in entries:
            if entry.stop.text not in there:
                new.setdefault(entry.stop.text, entry)
        after = [*self._entries, *new.values()]
        if not self._accepts(after):
            return False
        if new:
            self._push(what, after, len(after) - 1)
        return True

    def fix(self, row: int, remark: Remark | None = None) -> None:
        """Mend what a remark is on; without one, the first that can be mended."""
        remark = remark or next((found for found in self.remarks_on(row) if found.fix), None)
        if remark is None:
            return
        if remark.fixed is None:
            self.remove([row])
            return
        self._change(row, f"Fix {quoted(remark.fixed, 16)}", self._typed(row, remark.fixed))

    def ensure(self, sequence: str, scope: StopScope = StopScope.TEXT) -> bool:
        """Add a sequence, or let the row that has it count there; return whether it is in use."""
        for row, entry in enumerate(self._entries):
            if entry.stop.text == sequence:
                is_wide = scope.channels <= entry.scope.channels
                used = replace(entry if is_wide else entry.within(scope), is_enabled=True)
                if used == entry:
                    self.row_changed.emit(row)
                    return True
                return self._change(row, f"Use {quoted(sequence, 16)}", used)
        return self.add_all([StopEntry.of(sequence).within(scope)], f"Add {quoted(sequence, 16)}")

    def setData(self, index: Index, value: Any, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        if not index.isValid():
            return False
        row = index.row()
        if index.column() == StopColumn.ENABLED and role == Qt.ItemDataRole.CheckStateRole:
            self.set_enabled(row, Qt.CheckState(value) == Qt.CheckState.Checked)
            return True
        if index.column() != StopColumn.SEQUENCE or role != Qt.ItemDataRole.EditRole:
            return False
        sequence = self._read(str(value), self.edits_with_escapes(row))
        if sequence is None:
            return False
        if sequence == self._entries[row].stop.text:
            return True
        return self._change(row, f"Edit {quoted(sequence, 16)}", self._typed(row, sequence))

    def set_enabled(self, row: int, is_enabled: bool) -> None:
        entry = self._entries[row]
        if entry.is_enabled != is_enabled:
            verb = "Enable" if is_enabled else "Disable"
            what = f"{verb} {quoted(entry.stop.text, 16)}"
            self._change(row, what, replace(entry, is_enabled=is_enabled))

    def set_scope(self, row: int, scope: StopScope) -> None:
        entry = self._entries[row]
        if entry.scope is not scope:
            what = f"Change Scope of {quoted(entry.stop.text, 16)}"
            self._change(row, what, entry.within(scope))

    def set_option(self, row: int, option: StopOption, value: Any) -> None:
        entry = self._entries[row]
        what = f"Change {quoted(entry.stop.text, 16)}"
        self._change(row, what, replace(entry, stop=replace(entry.stop, **{option.name: value})))

    def remove(self, rows: Sequence[int]) -> None:
        removed = set(rows)
        after = [entry for row, entry in enumerate(self._entries) if row not in removed]
        if len(after) < len(self._entries):
            what = counted(len(removed), "stop")
            if len(removed) == 1:
                what = quoted(self._entries[rows[0]].stop.text, 16)
            self._push(f"Remove {what}", after, min(min(removed), len(after) - 1))
            self.removed.emit(f"Removed {what}")

    def replace_all(self, entries: Sequence[StopEntry], what: str) -> None:
        if list(entries) != self._entries and self._accepts(list(entries)):
            self._push(what, list(entries), len(entries) - 1)

    def move(self, row: int, to_row: int) -> None:
        if row == to_row or not 0 <= to_row < len(self._entries):
            return
        after = self.entries()
        after.insert(to_row, after.pop(row))
        self._push("Reorder", after, to_row)

    # -- the change itself -----------------------------------------------------------------

    def show_entries(self, entries: Sequence[StopEntry], row: int) -> None:
        if len(entries) == len(self._entries):
            self._entries = list(entries)
            self._repaint()
        else:
            self.beginResetModel()
            self._entries = list(entries)
            self.endResetModel()
        self._tokens.fetch(self._sequences())
        self.edited.emit()
        self.row_changed.emit(row)

    def _typed(self, row: int, sequence: str) -> StopEntry:
        entry = self._entries[row]
        return replace(entry, stop=replace(entry.stop, text=sequence))

    def _change(self, row: int, what: str, entry: StopEntry) -> bool:
        after = self.entries()
        after[row] = entry
        if not self._accepts(after):
            return False
        self._push(what, after, row)
        return True

    def _push(self, what: str, after: list[StopEntry], row: int) -> None:
        before = self.entries()
        earlier_row = min(row, len(before) - 1)
        self.undo_stack.push(
            ValueChange(self.show_entries, (before, earlier_row), (after, row), what)
        )

    def _read(self, typed: str, with_escapes: bool) -> str | None:
        """Return the sequence that was typed; None, with ``refused`` emitted, if it is invalid."""
        try:
            return typed_sequence(typed, with_escapes=with_escapes)
        except ValueError as error:
            self.refused.emit(str(error))
            return None

    def _accepts(self, entries: list[StopEntry]) -> bool:
        reason = refusal(entries)
        if reason:
            self.refused.emit(reason)
        return not reason

    # -- reading ---------------------------------------------------------------------------

    def entries(self) -> list[StopEntry]:
        return list(self._entries)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(StopColumn)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if not index.isValid() or index.row() >= len(self._entries):
            return None
        row = index.row()
        entry = self._entries[row]
        column = StopColumn(index.column())
        if role == Qt.ItemDataRole.AccessibleTextRole:
            hits = self.data(self.index(row, StopColumn.FIRED))
            return spoken(
                column, hits if column is StopColumn.SEQUENCE else self.data(index), entry
            )
        text = entry.stop.text
        match column:
            case StopColumn.ENABLED if role == Qt.ItemDataRole.CheckStateRole:
                return Qt.CheckState.Checked if entry.is_enabled else Qt.CheckState.Unchecked
            case StopColumn.ENABLED if role == _TOOL_TIP:
                return "Applies to the next answer" if entry.is_enabled else "Switched off"
            case StopColumn.SEQUENCE if role == DISPLAY:
                return visible(text)
            case StopColumn.SEQUENCE if role == Qt.ItemDataRole.EditRole:
                return escaped(text) if self.edits_with_escapes(row) else text
            case StopColumn.SEQUENCE if role == _TOOL_TIP:
                whole = quoted(text, 400) if len(text) > _SHORT_CHARS else ""
                tokens = self._tokens.describe(text) or counted(len(text), "character")
                use, hits = self._history.use_of(entry.stop), []
                if use.fired:
                    hits.append(f"Ended {counted(use.fired, 'answer')}")
                if use.near:
                    misses = counted(use.near, "near miss", "near misses")
                    hits.append(f"{misses} in the last {counted(use.answers, 'answer')}")
                tip = "\n".join(filter(None, (whole, tokens, " · ".join(hits))))
                return plain_tooltip(tip)
            case StopColumn.SCOPE if role == DISPLAY:
                return "" if entry.scope is StopScope.TEXT else SCOPE_LABELS[entry.scope]
            case StopColumn.FIRED if role == DISPLAY and text == self.fired:
                return ENDED_ANSWER
            case StopColumn.FIRED if role == DISPLAY:
                fired = self._history.use_of(entry.stop).fired
                return f"{fired}×" if fired else ""
            case StopColumn.REMARK if role in (DISPLAY, _TOOL_TIP):
                found = [remark.text for remark in self.remarks_on(row)]
                return ("\n".join(found) if role == _TOOL_TIP else found[0]) if found else None
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return section + 1
        return TITLES[section]

    def flags(self, index: Index) -> Qt.ItemFlag:
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
        return self._with_escapes or needs_escapes(self._entries[row].stop.text)

    def has_problem(self, row: int) -> bool:
        return any(remark.is_problem for remark in self.remarks_on(row))

    def remarks_on(self, row: int) -> list[Remark]:
        return remarks(CheckedStop(self._entries, row, self._history, self._special_tokens))

    # -- model and history -----------------------------------------------------------------

    def set_tokenizer(self, tokenize: Tokenize | None) -> None:
        self._tokens.use(tokenize, self._sequences())

    def set_special_tokens(self, texts: Iterable[str]) -> None:
        self._special_tokens = frozenset(texts)
        self._repaint()
        self.remarks_changed.emit()

    def show_fired(self, sequence: str) -> None:
        if sequence != self.fired:
            self.fired = sequence
            self._repaint()
            self.remarks_changed.emit()

    def set_history(self, history: StopHistory) -> None:
        self._history = history
        self._repaint()
        self.remarks_changed.emit()

    # -- drag and drop ---------------------------------------------------------------------

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [_ROW_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
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

    def _sequences(self) -> list[str]:
        return [entry.stop.text for entry in self._entries]

    def _repaint(self) -> None:
        if self._entries:
            last = self.index(len(self._entries) - 1, len(StopColumn) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
