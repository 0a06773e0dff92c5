"""Remarks on a stop sequence before it is used. Pure; any thread."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from engine import counted, quoted, visible
from ui.records.conversations import StopEntry
from ui.stops.stop_history import StopHistory
from ui.words.visible import unescaped

_OPENAI_LIMIT = 4
_FIX_CHARS = 20
# What white space does to nearly every answer.
_ENDS_EARLY = {
    " ": "it ends nearly every answer after its first word, and ",
    "\n": "it ends an answer after its first line, and ",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """A possible problem with a sequence."""

    words: str
    fix: str = ""
    fixed: str | None = None


def remarks(
    entries: Sequence[StopEntry],
    row: int,
    history: StopHistory,
    special_tokens: frozenset[str],
) -> list[Remark]:
    """Return the remarks on the sequence of a row, most important first."""
    sequence = entries[row].sequence
    said = [*_twins(entries, row), *_shadows(entries, row)]
    said.extend(_white_space(sequence))
    if any(pair in sequence for pair in ("\\n", "\\t", "\\r")):
        said.append(_backslash(sequence))
    if sequence in special_tokens:
        said.append(Remark("A special token of this model; it is matched by its id."))
    said.extend(_unicode_forms(sequence))
    said.extend(_from_history(sequence, history))
    counting = [i for i, entry in enumerate(entries) if entry.is_enabled]
    if row in counting[_OPENAI_LIMIT:]:
        said.append(
            Remark(f"Number {counting.index(row) + 1}: OpenAI’s service accepts at most four.")
        )
    return said


def _twins(entries: Sequence[StopEntry], row: int) -> list[Remark]:
    sequence = entries[row].sequence
    twin = next((i for i in range(row) if entries[i].sequence == sequence), None)
    if twin is None:
        return []
    return [Remark(f"The same as row {twin + 1}; it counts once.", "Remove It")]


def _shadows(entries: Sequence[StopEntry], row: int) -> list[Remark]:
    """Return a remark if another stop is inside this one and always completes first."""
    sequence, channels = entries[row].sequence, entries[row].scope.channels
    for number, other in enumerate(entries, 1):
        if not other.is_enabled or not channels <= other.scope.channels:
            continue
        if other.sequence and other.sequence in sequence[:-1]:
            name = quoted(other.sequence, 20)
            words = f"Never matches: {name} in row {number} is always complete first."
            return [Remark(words, "Remove It")]
    return []


def _white_space(sequence: str) -> list[Remark]:
    if not sequence.strip():
        ends = _ENDS_EARLY.get(sequence, "")
        return [Remark(f"White space only: {ends}some services refuse it.")]
    bare = sequence.strip(" ")
    if bare == sequence:
        return []
    words = "Begins or ends with a space, which must match exactly."
    return [Remark(words, "Remove the Space", bare)]


def _backslash(sequence: str) -> Remark:
    words = (
        "Contains a backslash and a letter as two characters. For a line break or tab, enter it "
        "“With Escapes”."
    )
    try:
        meant = unescaped(sequence)
    except ValueError:
        return Remark(words)
    # Shown as in the list: written with escapes it would look like the present sequence.
    shown = meant if len(meant) <= _FIX_CHARS else f"{meant[: _FIX_CHARS - 1]}…"
    return Remark(words, f"Make It {visible(shown)}", meant)


def _unicode_forms(sequence: str) -> list[Remark]:
    composed = unicodedata.normalize("NFC", sequence)
    if composed != sequence:
        words = "Contains a letter and its accent as two characters; models usually write one."
        return [Remark(words, "Combine Them", composed)]
    if unicodedata.normalize("NFD", sequence) != sequence:
        return [
            Remark("Contains accents; text that writes them as separate characters does not match.")
        ]
    return []


def _from_history(sequence: str, history: StopHistory) -> list[Remark]:
    use = history.use_of(sequence)
    said = []
    if use.is_in_prompt:
        said.append(
            Remark(
                "Occurs in your own text. Only the answer is searched, but an answer that "
                "repeats your words stops there."
            )
        )
    if use.would_have_fired:
        said.append(
            Remark(
                "Would have ended the last answer."
                if use.answers == 1
                else f"Would have ended {use.would_have_fired:,} of the last "
                f"{counted(use.answers, 'answer')}."
            )
        )
    return said
