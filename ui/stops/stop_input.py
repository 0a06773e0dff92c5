"""Reads a stop sequence that a person typed, or says why it is invalid. Pure; any thread."""

from collections.abc import Sequence

from engine import InvalidRequest, checked_strings
from ui.records.conversations import StopEntry
from ui.words.visible import unescaped

EMPTY_MESSAGE = "An empty sequence would stop every answer at once. Type at least one character."


def typed_sequence(typed: str, *, with_escapes: bool) -> str:
    r"""Return the sequence that the input stands for."""
    if not typed:
        raise ValueError(EMPTY_MESSAGE)
    return unescaped(typed) if with_escapes else typed


def refusal(entries: Sequence[StopEntry]) -> str:
    """Return why a stop list cannot be used; empty if it can."""
    try:
        checked_strings([entry.sequence for entry in entries], "stops")
    except InvalidRequest as error:
        return f"{error.reason[:1].upper()}{error.reason[1:]}."
    return ""
