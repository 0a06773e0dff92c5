"""JSON as it goes out: compact, ASCII. Pure; any thread."""

import json
from collections.abc import Iterable
from typing import Any

# ASCII alone: some clients split a stream's lines at U+0085 and U+2028 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Any) -> str:
    """Return a value as compact JSON text; fast for a plain string."""
    return _ENCODER.encode(value)


class GrowingText:
    """A JSON string that grows at its end. What was added before is not encoded again."""

    def __init__(self) -> None:
        self._json = '"'
        self._added: list[str] = []

    def add(self, text: str) -> None:
        """Add text at its end."""
        # A character is escaped by itself, so pieces may be encoded one by one.
        self._added.append(json_text(text)[1:-1])

    def json(self) -> str:
        """Return what ``json_text`` returns for all of it."""
        if self._added:
            self._json = "".join((self._json, *self._added))
            self._added.clear()
        return f'{self._json}"'


class GrowingList:
    """A JSON list that grows at its end. What was added before is not encoded again."""

    def __init__(self) -> None:
        self._json = "["
        self._added: list[Any] = []

    def add(self, items: Iterable[Any]) -> None:
        """Add items at its end."""
        self._added.extend(items)

    def json(self) -> str:
        """Return what ``json_text`` returns for all of it."""
        if self._added:
            comma = "," if len(self._json) > 1 else ""
            self._json = f"{self._json}{comma}{json_text(self._added)[1:-1]}"
            self._added.clear()
        return f"{self._json}]"
