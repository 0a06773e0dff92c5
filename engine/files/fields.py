"""Reads JSON objects field by field; errors name the place of the fault. Pure; any thread."""

import json
import math
from typing import Any, TypeVar

from engine.errors import EngineError
from engine.files.patient_json import parse_json

_T = TypeVar("_T")
# Databases, windows and other programs' numbers have 64 bits.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class DamagedFile(EngineError, ValueError):
    """A file has unexpected content; the message names the field and what is expected."""


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DamagedFile: It is not valid JSON; the message names the line.
    """
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise DamagedFile(f"line {error.lineno} is not valid JSON") from error
    except RecursionError as error:
        raise DamagedFile("it is nested too deeply") from error
    except ValueError as error:
        # Python's own limit for the digits of a whole number.
        raise DamagedFile("it contains a number that is too long") from error


class Fields:
    """The fields of a JSON object.

    Raises:
        DamagedFile: It is not an object.
    """

    def __init__(self, values: Any, where: str = "") -> None:
        if not isinstance(values, dict):
            raise DamagedFile(f"{where or 'the file'}: must be an object")
        self._values = values
        self._where = f"{where}." if where else ""

    def take(self, name: str, kind: type[_T]) -> _T:
        """Return a field that must be there."""
        value = self.maybe(name, kind)
        if value is None:
            raise DamagedFile(f"{self._where}{name}: is missing")
        return value

    def maybe(self, name: str, kind: type[_T]) -> _T | None:
        """Return a field; None if it is missing or null."""
        value = self._values.get(name)
        if value is None:
            return None
        if type(value) is int and not _LEAST <= value <= _MOST:
            raise self.wrong(name, "the number is too large")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        is_number = kind in (int, float) and isinstance(value, bool)
        if not isinstance(value, kind) or is_number:
            wanted = _NAMES.get(kind, "a list" if kind is list else "an object")
            raise DamagedFile(f"{self._where}{name}: must be {wanted}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(name, "must be a number, not infinity or NaN")
        if isinstance(value, str):
            self._must_be_whole(name, value)
        return value

    def raw(self, name: str) -> Any:
        """Return a field unchecked; None if it is missing."""
        return self._values.get(name)

    def _must_be_whole(self, name: str, text: str) -> None:
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise self.wrong(name, "contains half of a character (a surrogate)")

    def choice(self, name: str, kind: type[_T]) -> _T:
        """Return a field that must name a member of an enumeration."""
        value = self.take(name, str)
        try:
            return kind(value)  # type: ignore[call-arg]
        except ValueError as error:
            known = ", ".join(str(member.value) for member in kind)  # type: ignore[attr-defined]
            raise DamagedFile(f"{self._where}{name}: must be one of {known}") from error

    def inner(self, name: str) -> "Fields":
        """Return the fields of an inner object."""
        return Fields(self._values.get(name), f"{self._where}{name}")

    def each(self, kind: type[_T]) -> dict[str, _T]:
        """Return all fields of an object with arbitrary names and values of one kind."""
        for name in self._values:
            self._must_be_whole(name, name)
        return {name: self.take(name, kind) for name in self._values}

    def has(self, name: str) -> bool:
        """Return whether a field exists and is not null."""
        return self._values.get(name) is not None

    def items(self, name: str) -> "list[Fields]":
        """Return the objects of an inner list; a missing list counts as empty."""
        values = self.maybe(name, list) or []
        return [Fields(value, f"{self._where}{name}[{n}]") for n, value in enumerate(values)]

    def ints(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers that must be there."""
        values = self.take(name, list)
        if not all(type(value) is int for value in values):
            raise self.wrong(name, "must be a list of whole numbers")
        if not all(_LEAST <= value <= _MOST for value in values):
            raise self.wrong(name, "a number is too large")
        return tuple(values)

    def wrong(self, name: str, reason: str) -> DamagedFile:
        """Return an error about a field."""
        return DamagedFile(f"{self._where}{name}: {reason}")
