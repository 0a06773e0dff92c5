"""The rows of a stop list as they are shown, with tokens, remarks and uses. Main thread."""

import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import shiboken6
from PySide6.QtCore import QAbstractTableModel, QMimeData, QModelIndex, QObject, Qt, Signal

from engine import EngineError, Stop, StopKind, StopScope, counted, escaped, quoted, visible
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.tasks import start_task
from ui.records.conversations import Conversation, StopEntry
from ui.records.runs import Run
from ui.words import needs_escapes, unescaped

# Computed again when an answer ends, never while tokens arrive.


Pieces = tuple[tuple[int, str], ...]
Tokenize = Callable[[str], Awaitable[Pieces]]
_FIX_CHARS = 20
# What white space does to nearly every answer.
_ENDS_EARLY = {
    " ": "it ends nearly every answer after its first word, and ",
    "\n": "it ends an answer after its first line, and ",
}
_CELL, _TOOL_TIP = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole
TITLES = ("On", "Sequence", "Scope", "Tokens", "Hits", "Note")
SCOPE_LABELS = {
    StopScope.TEXT: "Answer",
    StopScope.TEXT_AND_THINKING: "Answer and Thinking",
    StopScope.ALL: "Everywhere",
}
_ROW_MIME = "application/x-fullstop-stop-row"


@dataclass(frozen=True, slots=True)
class StopUse:
    """How often one sequence ended, or would have ended, answers of a conversation."""

    fired: int = 0
    near: int = 0
    would_have_fired: int = 0
    answers: int = 0
    is_in_prompt: bool = False


@dataclass(frozen=True)
class StopHistory:
    """The texts and ends of a conversation that the counts and remarks need."""

    prompt: str = ""
    answers: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    _uses: dict[Stop, StopUse] = field(default_factory=dict, compare=False, repr=False)

    def use_of(self, stop: Stop) -> StopUse:
        use = self._uses.get(stop)
        if use is None:
            use = self._uses[stop] = self._look(stop)
        return use

    def _look(self, stop: Stop) -> StopUse:
        length = len(stop.text)
        if not length:
            return StopUse()
        half = max(2, (length + 1) // 2)
        whole = [stop.find(text) >= 0 for text in self.answers]
        begun = [half < length and stop.find(text, chars=half) >= 0 for text in self.answers]
        return StopUse(
            fired=self.fired.count(stop.text),
            near=sum(b and not w for b, w in zip(begun, whole, strict=True)),
            would_have_fired=sum(whole),
            answers=len(self.answers),
            is_in_prompt=stop.find(self.prompt) >= 0,
        )


def history_of(conversation: Conversation) -> StopHistory:
    """Return the history of a conversation's shown messages."""
    shown = conversation.messages
    runs = [message.run for message in shown if message.run is not None and message.run.is_over]
    prompt = [conversation.settings.system_prompt]
    prompt += [message.text for message in shown if message.role != "assistant"]
    return StopHistory(
        prompt="\n".join(prompt),
        answers=tuple(run.text for run in runs[-10:]),
        fired=tuple(name for run in runs if (name := _ended_by(run))),
    )


def _ended_by(run: Run) -> str:
    if run.finished is None or run.finished.stop.kind is not StopKind.STOP_STRING:
        return ""
    return str(run.finished.stop.value)


class StopTokens(QObject):
    """Knows the tokens of sequences, alone and after a space, in the loaded model."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tokenize: Tokenize | None = None
        self._pieces: dict[str, Pieces] = {}

    def use(self, tokenize: Tokenize | None, sequences: Sequence[str]) -> None:
        self._tokenize = tokenize
        self._pieces.clear()
        self.fetch(sequences)
        self.changed.emit()

    def fetch(self, sequences: Sequence[str]) -> None:
        if self._tokenize is not None and any(
            sequence not in self._pieces for sequence in sequences
        ):
            work = self._fetch(self._tokenize, list(sequences))
            start_task(self, work, "tokens of stop sequences")

    def count(self, sequence: str) -> str:
        pieces = self._pieces.get(sequence)
        return "–" if pieces is None else str(len(pieces))

    def describe(self, sequence: str) -> str | None:
        pieces = self._pieces.get(sequence)
        if pieces is None:
            return None
        alone = f"In this model, on its own: {_shown(pieces)}"
        spaced = self._pieces.get(f" {sequence}", ())
        return f"{alone}\nAfter a space: {_shown(spaced)}" if spaced else alone

    async def _fetch(self, tokenize: Tokenize, sequences: list[str]) -> None:
        for sequence in sequences:
            if sequence in self._pieces:
                continue
            try:
                spaced = await tokenize(f" {sequence}")
                pieces = await tokenize(sequence)
            except EngineError:
                return  # the model was unloaded; the next model is asked again
            if tokenize is self._tokenize:
                self._pieces[f" {sequence}"] = spaced
                self._pieces[sequence] = pieces
        if shiboken6.isValid(self):  # otherwise its conversation was closed meanwhile
            self.changed.emit()


def _shown(pieces: Pieces) -> str:
    return "  ".join(f"{visible(piece)} ({token_id})" for token_id, piece in pieces)


@dataclass(frozen=True, slots=True)
class Remark:
    """A possible problem with a sequence."""

    text: str
    fix: str = ""
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedStop:
    """The stop of one row, with the rows around it, its history and the model's special tokens."""

    entries: Sequence[StopEntry]
    row: int
    history: StopHistory
    special_tokens: frozenset[str]

    @property
    def stop(self) -> Stop:
        return self.entries[self.row].stop

    @property
    def text(self) -> str:
        return self.stop.text


def remarks(checked: CheckedStop) -> list[Remark]:
    """Return the remarks on the stop of a row, most important first."""
    found = (remark_on(checked) for remark_on in REMARKS)
    return [remark for remark in found if remark is not None]


def _duplicate(checked: CheckedStop) -> Remark | None:
    texts = [entry.stop.text for entry in checked.entries]
    first = texts.index(checked.text)
    return None if first == checked.row else Remark(f"Duplicate of row {first + 1}.", "Remove")


def _never_matches(checked: CheckedStop) -> Remark | None:
    """Return a remark if another stop is inside this one and always completes first."""
    for number, other in enumerate(checked.entries, 1):
        if other.is_enabled and other.stop.outruns(checked.stop, StopScope.TEXT):
            name = quoted(other.stop.text, 20)
            text = f"Never matches: {name} (row {number}) always matches first."
            return Remark(text, "Remove")
    return None


def _white_space(checked: CheckedStop) -> Remark | None:
    sequence = checked.text
    if not sequence.strip():
        ends = _ENDS_EARLY.get(sequence, "")
        return Remark(f"White space only: {ends}some services refuse it.")
    bare = sequence.strip(" ")
    if bare == sequence:
        return None
    text = "Begins or ends with a space, which must match exactly."
    return Remark(text, "Remove the Space", bare)


def _backslash(checked: CheckedStop) -> Remark | None:
    sequence = checked.text
    if not any(pair in sequence for pair in ("\\n", "\\t", "\\r")):
        return None
    text = (
        "Contains a backslash and a letter as two characters. For a line break or tab, enter it "
        "with “Escapes”."
    )
    try:
        meant = unescaped(sequence)
    except ValueError:
        return Remark(text)
    # Shown as in the list: written with escapes it would look like the present sequence.
    shown = meant if len(meant) <= _FIX_CHARS else f"{meant[: _FIX_CHARS - 1]}…"
    return Remark(text, f"Replace with {visible(shown)}", meant)


def _special_token(checked: CheckedStop) -> Remark | None:
    if checked.text not in checked.special_tokens:
        return None
    return Remark("Special token: matched by ID, not by text.")


def _unicode_forms(checked: CheckedStop) -> Remark | None:
    sequence = checked.text
    composed = unicodedata.normalize("NFC", sequence)
    if composed != sequence:
        text = "Contains a letter and its accent as two characters; models usually write one."
        return Remark(text, "Combine Characters", composed)
    if unicodedata.normalize("NFD", sequence) == sequence:
        return None
    return Remark("Contains accents; text that writes them as separate characters does not match.")


def _in_prompt(checked: CheckedStop) -> Remark | None:
    if not checked.history.use_of(checked.stop).is_in_prompt:
        return None
    return Remark(
        "Occurs in your own text. Only the answer is searched, but an answer that repeats your "
        "words stops there."
    )


def _would_have_fired(checked: CheckedStop) -> Remark | None:
    use = checked.history.use_of(checked.stop)
    if not use.would_have_fired:
        return None
    if use.answers == 1:
        return Remark("Would have ended the last answer.")
    return Remark(
        f"Would have ended {use.would_have_fired:,} of the last {counted(use.answers, 'answer')}."
    )


def _beyond_four(checked: CheckedStop) -> Remark | None:
    counting = [i for i, entry in enumerate(checked.entries) if entry.is_enabled]
    if checked.row not in counting[4:]:
        return None
    number = counting.index(checked.row) + 1
    return Remark(f"Number {number}: OpenAI’s service accepts at most four.")


REMARKS: tuple[Callable[[CheckedStop], Remark | None], ...] = (
    _duplicate,
    _never_matches,
    _white_space,
    _backslash,
    _special_token,
    _unicode_forms,
    _in_prompt,
    _would_have_fired,
    _beyond_four,
)
"""Returns a remark on a stop, or None; most important first."""


class StopColumn(IntEnum):
    """The columns of the table."""

    ENABLED = 0
    SEQUENCE = 1
    SCOPE = 2
    TOKENS = 3
    FIRED = 4
    REMARK = 5


def spoken(column: StopColumn, shown: Any, entry: StopEntry) -> str:
    """Return what a screen reader says of a cell: its own content, in words."""
    match column:
        case StopColumn.ENABLED:
            return "On" if entry.is_enabled else "Off"
        case StopColumn.SEQUENCE:
            return f"Stop sequence {quoted(entry.stop.text, 40)}"
        case StopColumn.SCOPE:
            return SCOPE_LABELS[entry.scope]
        case StopColumn.TOKENS:
            is_known = str(shown).isdecimal()
            return counted(int(shown), "token") if is_known else "Tokens not known yet"
        case StopColumn.FIRED:
            fired = str(shown).removesuffix("×")
            return f"Fired {counted(int(fired), 'time')}" if fired else "Has not fired"
        case StopColumn.REMARK:
            return str(shown) if shown else "No remark"


def enabled_cell(entry: StopEntry, role: int) -> Any:
    """Return the check box."""
    if role == Qt.ItemDataRole.CheckStateRole:
        return Qt.CheckState.Checked if entry.is_enabled else Qt.CheckState.Unchecked
    if role == _TOOL_TIP:
        return "Applies to the next answer" if entry.is_enabled else "Switched off"
    return None


def sequence_cell(sequence: str, role: int, *, with_escapes: bool) -> Any:
    """Return the sequence: white space visible for display, the input text for editing."""
    if role == _CELL:
        return visible(sequence)
    if role == Qt.ItemDataRole.EditRole:
        return escaped(sequence) if with_escapes else sequence
    if role == _TOOL_TIP:
        return f"{quoted(sequence, 400)}, {counted(len(sequence), 'character')}"
    return None


def scope_cell(scope: StopScope, role: int) -> Any:
    """Return where a sequence applies."""
    if role == Qt.ItemDataRole.UserRole:
        return scope
    return SCOPE_LABELS[scope].capitalize() if role == _TOOL_TIP else None


def tokens_cell(tokens: StopTokens, sequence: str, role: int) -> Any:
    """Return the number of a sequence's tokens in the loaded model, or the tokens themselves."""
    if role == _CELL:
        return tokens.count(sequence)
    return tokens.describe(sequence) if role == _TOOL_TIP else None


def fired_cell(history: StopHistory, stop: Stop, role: int) -> Any:
    """Return how often a stop ended an answer."""
    use = history.use_of(stop)
    if role == _CELL:
        return f"{use.fired}×" if use.fired else ""
    if role == _TOOL_TIP:
        return (
            f"Ended {use.fired:,} of this conversation’s answers. Near misses in the last "
            f"{counted(use.answers, 'answer')}: {use.near:,}"
        )
    return None


def remark_cell(text: Sequence[Remark], role: int) -> Any:
    """Return the remark on a row."""
    if text and role == _TOOL_TIP:
        return "\n".join(remark.text for remark in text)
    return text[0].text if text and role == _CELL else None


class StopRows(QAbstractTableModel):
    """Rows of stop sequences: enabled, sequence, its tokens in this model, remarks."""

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
            return spoken(column, self.data(index), entry)
        match column:
            case StopColumn.ENABLED:
                return enabled_cell(entry, role)
            case StopColumn.SEQUENCE:
                with_escapes = self.edits_with_escapes(row)
                return sequence_cell(entry.stop.text, role, with_escapes=with_escapes)
            case StopColumn.SCOPE:
                return scope_cell(entry.scope, role)
            case StopColumn.TOKENS:
                return tokens_cell(self._tokens, entry.stop.text, role)
            case StopColumn.FIRED:
                return fired_cell(self._history, entry.stop, role)
            case StopColumn.REMARK:
                return remark_cell(self.remarks_on(row), role)

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

    def remarks_on(self, row: int) -> list[Remark]:
        return remarks(CheckedStop(self._entries, row, self._history, self._special_tokens))

    # -- model and history -----------------------------------------------------------------

    def set_tokenizer(self, tokenize: Tokenize | None) -> None:
        self._tokens.use(tokenize, self._sequences())

    def set_special_tokens(self, texts: Iterable[str]) -> None:
        self._special_tokens = frozenset(texts)
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

    def move(self, row: int, to_row: int) -> None:
        """Move a row to the place of ``to_row``."""
        raise NotImplementedError

    # -- for the subclass ------------------------------------------------------------------

    def _sequences(self) -> list[str]:
        return [entry.stop.text for entry in self._entries]

    def _repaint(self) -> None:
        if self._entries:
            last = self.index(len(self._entries) - 1, len(StopColumn) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
