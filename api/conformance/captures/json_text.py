"""Reads JSON texts of strangers: one that nests too deeply is no more use than a broken one.

Pure; any thread.
"""

import json
import json.scanner
from typing import Any

# No API's answer nests as deep, and whoever walks the value must not run out of stack.
_MOST_LEVELS = 100
# The interpreter's own parser, which holds all threads up, reads this within milliseconds.
_SHORT_CHARS = 256 * 1024


def parsed(text: str) -> Any:
    """Return the value of a JSON text, a long one in small steps that let other threads go on.

    Raises:
        ValueError: It is none, nests too deeply, or has a number of thousands of digits.
    """
    decoder = json.JSONDecoder()
    if len(text) > _SHORT_CHARS:
        decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    try:
        value = decoder.decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if text.count("[") + text.count("{") > _MOST_LEVELS and _levels(value) > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")
    return value


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
