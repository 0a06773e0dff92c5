"""Parses long JSON texts in small steps, so that other threads can run meanwhile. Pure; any thread.

The standard parser holds the interpreter's lock until it has finished: 100 MB would freeze a window
for seconds, on whichever thread they are parsed.
"""

import json
import json.decoder
import json.scanner
from typing import Any

# The standard parser reads this much within a few milliseconds.
_SHORT_CHARS = 256 * 1024


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raises what ``json.loads`` raises."""
    return json.loads(text) if len(text) <= _SHORT_CHARS else _Patient().decode(text)


class _Patient(json.JSONDecoder):
    """The decoder of the standard library with its scanner in Python instead of C."""

    def __init__(self) -> None:
        super().__init__()
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
