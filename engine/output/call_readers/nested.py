"""Nested values of formats that are not JSON, written as JSON while they arrive.

Only the parser knows the right value, and only when the value is complete: irregular text becomes a
string, for example. A string may also begin with a bracket, so nothing is written before the first
text or number inside the value. At the end the written text is compared with the parser's value.
Where they differ, or the value is not regular, the reader gives up, and the call is sent when it is
complete. Pure; any thread.
"""

import json
from collections.abc import Callable

from engine.output.call_readers.arriving import (
    ArrivingText,
    CallWriter,
    IrregularCall,
    Waiting,
)

ReadValue = Callable[[ArrivingText, Callable[[str], object]], Waiting[None]]
"""Reads one value and writes it as ``json.dumps`` would."""

_OPENING = "{["


class NestedValue:
    """One value while it arrives."""

    __slots__ = ("_arriving", "_begin", "_has_begun", "_is_over", "_out", "_raw", "_reading",
                 "_told")  # fmt: skip

    def __init__(self, read: ReadValue, begin: Callable[[], None], out: CallWriter) -> None:
        self._arriving = ArrivingText()
        self._reading = read(self._arriving, self._write)
        self._begin = begin
        self._out = out
        self._raw: list[str] = []
        self._told: list[str] = []
        self._has_begun = False
        self._is_over = False

    @property
    def raw(self) -> str:
        """The raw text of the value so far."""
        return "".join(self._raw)

    def append(self, piece: str) -> None:
        """Take more of it."""
        self._raw.append(piece)
        if self._is_over:
            return
        self._arriving.append(piece)
        try:
            next(self._reading)
        except (StopIteration, IrregularCall):
            self._is_over = True

    def finish(self, value: object) -> bool:
        """End the value; return whether it was written. If not, the caller has to write it."""
        if not self._has_begun:
            return False
        told, text = "".join(self._told), json.dumps(value, ensure_ascii=False)
        if text.startswith(told):
            self._out.write(text[len(told) :])
        elif not _is_same(told, text):
            raise IrregularCall
        return True

    def _write(self, text: str) -> None:
        self._told.append(text)
        if self._has_begun:
            self._out.write(text)
        elif text not in _OPENING:
            self._has_begun = True
            self._begin()
            self._out.write("".join(self._told))


def _is_same(told: str, text: str) -> bool:
    """Return whether two JSON texts are the same except for a repeated key."""
    try:
        return json.dumps(json.loads(told), ensure_ascii=False) == text
    except ValueError:
        return False
