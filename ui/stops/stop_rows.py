"""The rows of a stop list as they are shown, with tokens, remarks and uses. Main thread."""

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import shiboken6
from PySide6.QtCore import QObject, Signal

from engine.errors import EngineError
from engine.stopping.record import StopKind
from engine.stopping.rules import Stop, StopScope
from engine.wording import counted, quoted, visible
from ui.kit.tasks import start_task
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.words import unescaped

Pieces = tuple[tuple[int, str], ...]
Tokenize = Callable[[str], Awaitable[Pieces]]
# What white space does to nearly every answer.
_ENDS_EARLY = {
    " ": "it ends nearly every answer after its first word, and ",
    "\n": "it ends an answer after its first line, and ",
}
SCOPE_LABELS = {
    StopScope.TEXT: "Answer",
    StopScope.TEXT_AND_THINKING: "Answer and Thinking",
    StopScope.ALL: "Everywhere",
}


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
        answers=tuple(run.text for run in runs if run.text)[-10:],
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

    def describe(self, sequence: str) -> str:
        """Return the tokens in words; empty until they are known."""
        pieces = self._pieces.get(sequence)
        if pieces is None:
            return ""
        alone = f"{counted(len(pieces), 'token')}: {_shown(pieces)}"
        spaced = self._pieces.get(f" {sequence}", ())
        return f"{alone} · after a space: {_shown(spaced)}" if spaced else alone

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
    """A remark on a sequence, with an icon for a problem."""

    text: str
    fix: str = ""
    fixed: str | None = None
    is_problem: bool = True


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
        return Remark(f"White space only: {ends}some services refuse it.", is_problem=bool(ends))
    bare = sequence.strip(" ")
    if bare == sequence:
        return None
    text = "Begins or ends with a space, which must match exactly."
    return Remark(text, "Remove Space", bare, is_problem=False)


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
    shown = meant if len(meant) <= 20 else f"{meant[:19]}…"
    return Remark(text, f"Replace with {visible(shown)}", meant)


def _special_token(checked: CheckedStop) -> Remark | None:
    if checked.text not in checked.special_tokens:
        return None
    return Remark("Special token: matched by ID, not by text.", is_problem=False)


def _unicode_forms(checked: CheckedStop) -> Remark | None:
    sequence = checked.text
    composed = unicodedata.normalize("NFC", sequence)
    if composed != sequence:
        text = "Contains a letter and its accent as two characters; models usually write one."
        return Remark(text, "Combine Characters", composed)
    if unicodedata.normalize("NFD", sequence) == sequence:
        return None
    text = "Contains accents; text that writes them as separate characters does not match."
    return Remark(text, is_problem=False)


def _in_prompt(checked: CheckedStop) -> Remark | None:
    if not checked.history.use_of(checked.stop).is_in_prompt:
        return None
    return Remark(
        "Occurs in your own text; an answer that repeats it stops there.",
        is_problem=False,
    )


def _would_have_fired(checked: CheckedStop) -> Remark | None:
    use = checked.history.use_of(checked.stop)
    if not use.would_have_fired:
        return None
    if use.answers == 1:
        return Remark("Would have ended the last answer.", is_problem=False)
    return Remark(
        f"Would have ended {use.would_have_fired:,} of the last {counted(use.answers, 'answer')}.",
        is_problem=False,
    )


def _beyond_four(checked: CheckedStop) -> Remark | None:
    counting = [i for i, entry in enumerate(checked.entries) if entry.is_enabled]
    if checked.row not in counting[4:]:
        return None
    number = counting.index(checked.row) + 1
    text = f"Number {number}: OpenAI’s service accepts at most four."
    return Remark(text, is_problem=False)


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


ENDED_ANSWER = "ended this answer"


class StopColumn(IntEnum):
    """The columns of the table."""

    ENABLED = 0
    SEQUENCE = 1
    SCOPE = 2
    FIRED = 3
    REMARK = 4


def spoken(column: StopColumn, shown: Any, entry: StopEntry) -> str:
    """Return what a screen reader says of a cell; of a sequence, also its scope and its hits."""
    match column:
        case StopColumn.ENABLED:
            return "On" if entry.is_enabled else "Off"
        case StopColumn.SEQUENCE:
            fired = str(shown).removesuffix("×")
            hits = f"fired {counted(int(fired), 'time')}" if fired.isdecimal() else fired
            scope = "" if entry.scope is StopScope.TEXT else SCOPE_LABELS[entry.scope]
            name = f"Stop sequence {quoted(entry.stop.text, 40)}"
            return ", ".join(filter(None, (name, scope, hits)))
        case StopColumn.REMARK:
            return str(shown) if shown else "No remark"
        case _:
            return str(shown)
