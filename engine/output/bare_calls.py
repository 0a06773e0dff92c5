"""Calls without tags: an answer that begins as a call is written, and where the call ends.

Pure; any thread.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

SEPARATORS = " \t\r\n;"
"""What may stand between two calls, or before the first."""

_NAME = r"[\w.-]{1,64}"


@dataclass(frozen=True, slots=True)
class BareCalls:
    """How a call without tags begins.

    Attributes:
        whole: Matches text that begins a call for certain.
        begun: Matches text that may still become that.
    """

    whole: re.Pattern[str]
    begun: re.Pattern[str]


def _beginnings(*heads: Sequence[str]) -> BareCalls:
    """Return beginnings, each as a sequence of expressions."""
    whole, begun = [], []
    for head in heads:
        parts = (r"[\s;]*", *head)
        whole.append("".join(parts))
        nested = ""
        for part in reversed(parts):
            nested = f"(?:{part}{nested})?"
        begun.append(nested)
    return BareCalls(re.compile("|".join(whole)), re.compile("|".join(begun)))


def _object_head(*fields: Sequence[str]) -> list[str]:
    """Return the expressions of an object's first fields, each its key and value."""
    parts = [r"\{"]
    for number, (key, *value) in enumerate(fields):
        parts += [r"\s*", ","] if number else []
        parts += [r"\s*", *f'"{key}"', r"\s*", ":", r"\s*", *value]
    return parts


_NAMED = ("name", '"', _NAME, '"')
_TYPED = ("type", *'"function"')
_GIVEN = tuple((key, r"\{") for key in ("parameters", "arguments"))

JSON_OBJECT = _beginnings(
    *(_object_head(_NAMED, given) for given in _GIVEN),
    *(_object_head(_TYPED, _NAMED, given) for given in _GIVEN),
)
"""``{"name": "f", "parameters": {`` at the beginning of an answer, as Llama 3.1 writes it."""

_CALLED = (r"\[", r"\s*", r"[A-Za-z_][\w.]{0,63}", r"\(", r"\s*")

PYTHON_LIST = _beginnings((*_CALLED, r"\)"), (*_CALLED, r"[A-Za-z_]\w{0,63}", r"\s*", "="))
"""``[f(a=`` at the beginning of an answer, as Gemma 3 writes it."""

_MARK = re.compile(r"""[{}\[\]()"'\\]""")


class CallEnd:
    """Finds where the brackets of a call are closed; brackets in strings do not count."""

    __slots__ = ("_depth", "_is_escaped", "_quote")

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._is_escaped = False

    def feed(self, text: str) -> int:
        """Take more text; return the place in it after the last bracket, or -1."""
        place = 0
        if self._is_escaped and text:
            self._is_escaped = False
            place = 1
        while found := _MARK.search(text, place):
            mark, place = found[0], found.end()
            if mark == "\\":
                self._is_escaped = place == len(text)
                place += 1
            elif self._quote:
                if mark == self._quote:
                    self._quote = ""
            elif mark in "\"'":
                self._quote = mark
            elif mark in "{[(":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return place
        return -1
