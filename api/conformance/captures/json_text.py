"""Parses JSON texts of foreign programs, and refuses those that nest too deeply.

It also refuses texts of millions of values, which take many times their size in memory. Pure; any
thread.
"""

import json
import json.scanner
import re
from collections.abc import Iterator
from typing import Any

# No API's answer nests this deep, and code that walks the value must not run out of stack.
_MOST_LEVELS = 100
# Some 150 MB.
_MOST_HOLDERS = 500_000
_MOST_VALUES = 2_000_000
# Python's own parser, which blocks all threads, parses this within milliseconds.
_SHORT_CHARS = 256 * 1024
_SHORT_DECODER = json.JSONDecoder()
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*+")


def has_too_many_values(text: str) -> bool:
    """Whether a text has so many brackets or commas that its values must not be kept."""
    if len(text) < _MOST_HOLDERS:
        return False
    holders = text.count("[") + text.count("{")
    return holders > _MOST_HOLDERS or text.count(",") > _MOST_VALUES


def parsed(text: str) -> Any:
    """Return the value of a JSON text; parse a long one in steps that let other threads run.

    Raises:
        ValueError: It is not JSON, nests too deeply, has a number of thousands of digits, or
            millions of values.
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
    """Yield the objects of an array in a text, one by one.

    Args:
        text: The text.
        first: The index of the array's bracket.
        is_alone: Whether only white space may follow the array.

    Raises:
        ValueError: It is not an array of objects, or one object has millions of values.
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
