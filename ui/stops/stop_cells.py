"""The contents of the cells of a stop list. Pure, except for the tokens; main thread."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from PySide6.QtCore import Qt

from engine import StopScope, counted, escaped, quoted, visible
from ui.records.conversations import StopEntry
from ui.stops.stop_history import StopHistory
from ui.stops.stop_remarks import Remark
from ui.stops.stop_tokens import StopTokens

_DISPLAY, _TOOL_TIP = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole


class StopColumn(IntEnum):
    """The columns of the table."""

    ENABLED = 0
    SEQUENCE = 1
    SCOPE = 2
    TOKENS = 3
    FIRED = 4
    REMARK = 5


TITLES = ("On", "Sequence", "Where it applies", "Tokens", "Fired", "Remark")
SCOPE_WORDS = {
    StopScope.TEXT: "In the Answer",
    StopScope.TEXT_AND_THINKING: "In the Answer and the Thinking",
    StopScope.ALL: "Everywhere, Tool Calls Included",
}


def spoken(entry: StopEntry) -> str:
    """Return what a screen reader says about a row."""
    state = "enabled" if entry.is_enabled else "disabled"
    where = SCOPE_WORDS[entry.scope].lower()
    return f"Stop sequence {quoted(entry.sequence, 40)}, {state}, applies {where}"


def enabled_cell(entry: StopEntry, role: int) -> Any:
    """Return the check box."""
    if role == Qt.ItemDataRole.CheckStateRole:
        return Qt.CheckState.Checked if entry.is_enabled else Qt.CheckState.Unchecked
    if role == _TOOL_TIP:
        return "Applies to the next answer" if entry.is_enabled else "Switched off"
    return None


def sequence_cell(sequence: str, role: int, *, with_escapes: bool) -> Any:
    """Return the sequence: white space visible for display, the input text for editing."""
    if role == _DISPLAY:
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
    return SCOPE_WORDS[scope].capitalize() if role == _TOOL_TIP else None


def tokens_cell(tokens: StopTokens, sequence: str, role: int) -> Any:
    """Return the number of a sequence's tokens in the loaded model, or the tokens themselves."""
    if role == _DISPLAY:
        return tokens.count(sequence)
    return tokens.words(sequence) if role == _TOOL_TIP else None


def fired_cell(history: StopHistory, sequence: str, role: int) -> Any:
    """Return how often a sequence ended an answer."""
    use = history.use_of(sequence)
    if role == _DISPLAY:
        return f"{use.fired}×" if use.fired else ""
    if role == _TOOL_TIP:
        return (
            f"Ended {use.fired:,} of this conversation’s answers. Near misses in the last "
            f"{counted(use.answers, 'answer')}: {use.near:,}"
        )
    return None


def remark_cell(said: Sequence[Remark], role: int) -> Any:
    """Return the remark on a row."""
    if said and role == _TOOL_TIP:
        return "\n".join(remark.words for remark in said)
    return said[0].words if said and role == _DISPLAY else None
