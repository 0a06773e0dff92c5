"""Reads JSON texts of strangers: one that nests too deeply is no more use than a broken one.

So is one of millions of values, which take many times its size in memory. Pure; any thread.
"""

import json
import json.scanner
import re
from collections.abc import Iterator
from typing import Any

# No API's answer nests as deep, and whoever walks the value must not run out of stack.
_MOST_LEVELS = 100
# Some 150 MB.
_MOST_HOLDERS = 500_000
_MOST_VALUES = 2_000_000
# The interpreter's own parser, which holds all threads up, reads this within milliseconds.
_SHORT_CHARS = 256 * 1024
_SHORT_DECODER = json.JSONDecoder()
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*+")


def has_too_many_values(text: str) -> bool:
    """Whether a text has so many brackets or commas that its values are not to be kept."""
    if len(text) < _MOST_HOLDERS:
        return False
    holders = text.count("[") + text.count("{")
    return holders > _MOST_HOLDERS or text.count(",") > _MOST_VALUES


def parsed(text: str) -> Any:
    """Return the value of a JSON text, a long one in small steps that let other threads go on.

    Raises:
        ValueError: It is none, nests too deeply, has a number of thousands of digits, or millions
            of values.
    """
    if has_too_many_values(text):
        raise ValueError("it has too many values")
    try:
        value = _decoder(text).decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check_levels(value, text.count("[") + text.count("{"))
    return value


def objects_of(text: str, first: int, *, is_alone: bool = True) -> Iterator[str]:
    """Yield the objects of an array of objects, one by one, as they stand in a text.

    Args:
        text: Where it stands.
        first: Where its bracket is.
        is_alone: Whether nothing but white space may follow it.

    Raises:
        ValueError: It is something else, or one object has millions of values.
    """
    at, mark = first, ","
    if not is_alone and text.startswith("]", _after_space(text, first + 1)):
        return
    while mark == ",":
        at = _after_space(text, at + 1)
        end = _end_of_object(text, at)
        yield text[at:end]
        at = _after_space(text, end)
        mark = text[at : at + 1]
    if mark != "]" or (is_alone and _after_space(text, at + 1) < len(text)):
        raise ValueError("it is not an array of objects")


def _end_of_object(text: str, begin: int) -> int:
    level = 0
    if text.startswith("{", begin):
        for count, found in enumerate(_MARK.finditer(text, begin)):
            if found[0] in ("{", "["):
                level += 1
            elif found[0] in ("}", "]"):
                level -= 1
            if level == 0:
                return found.end()
            if count > _MOST_VALUES:
                break
    raise ValueError("it is not an object, or has too many values")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _decoder(text: str) -> Any:
    if len(text) <= _SHORT_CHARS:
        return _SHORT_DECODER
    decoder = json.JSONDecoder()
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder


def _check_levels(value: Any, most: int) -> None:
    if most > _MOST_LEVELS and _levels(value) > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")


def _levels(value: Any) -> int:
    """Return how deep a value nests, without recursion."""
    level, inner = 0, [value]
    while inner:
        holders = [one for one in inner if isinstance(one, dict | list)]
        inner = []
        for one in holders:
            inner.extend(one.values() if isinstance(one, dict) else one)
        level += bool(holders)
        if level > _MOST_LEVELS:
            break
    return level
