"""Reads and writes JSON files: parsed patiently, field by field, or as dataclasses."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.errors import EngineError
from engine.wording import counted

_T = TypeVar("_T")
# Databases, windows and other programs' numbers have 64 bits.
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_HALF = re.compile("[\ud800-\udfff]")  # of a character beyond U+FFFF
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}

_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class DamagedFile(EngineError, ValueError):
    """A file has unexpected content; the message names the field and the expected kind."""


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text; raises ``DamagedFile``."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFile(f"line {error.lineno} is not valid JSON") from error
    except RecursionError as error:
        raise DamagedFile("it is nested too deeply") from error
    except ValueError as error:
        # Python's own limit for the digits of a whole number.
        raise DamagedFile("it contains a number that is too long") from error


class Fields:
    """The fields of a JSON object; every method raises ``DamagedFile``."""

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
        if type(value) is int and not _MIN <= value <= _MAX:
            raise self.wrong(name, "the number is too large")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        is_number = kind in (int, float) and isinstance(value, bool)
        if not isinstance(value, kind) or is_number:
            expected = _NAMES.get(kind, "a list" if kind is list else "an object")
            raise DamagedFile(f"{self._where}{name}: must be {expected}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(name, "must be a number, not infinity or NaN")
        if isinstance(value, str):
            self._must_be_whole(name, value)
        return value

    def raw(self, name: str) -> Any:
        """Return a field unchecked; None if it is missing."""
        return self._values.get(name)

    def _must_be_whole(self, name: str, text: str) -> None:
        if _HALF.search(text):
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
        if not all(_MIN <= value <= _MAX for value in values):
            raise self.wrong(name, "a number is too large")
        return tuple(values)

    def plain(self, kind: type) -> dict[str, Any]:
        """Return the set fields that a dataclass has, those of one text, number or truth value."""
        read = {name: self.maybe(name, of) for name, of in _plain_kinds(kind).items()}
        return {name: value for name, value in read.items() if value is not None}

    def wrong(self, name: str, reason: str) -> DamagedFile:
        """Return an error about a field."""
        return DamagedFile(f"{self._where}{name}: {reason}")


# For files that only this program writes: a later version may add fields that have defaults.


def to_values(value: Any) -> Any:
    """Return a value as JSON values; fields that have their default are left out."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_values(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, Mapping):
        return {str(name): to_values(item) for name, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [to_values(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_values(kind: Any, values: Any) -> Any:
    """Return a type's value from JSON values, without unknown fields; raises ``DamagedFile``."""
    try:
        return _read(kind, values)
    except (TypeError, ValueError, KeyError) as error:
        raise DamagedFile(f"not a {getattr(kind, '__name__', kind)}: {error}") from error


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@lru_cache(maxsize=256)
def _plain_kinds(kind: type) -> dict[str, Any]:
    """Return the types of the fields with a single value, optional ones included."""
    kinds = {name: set(get_args(of) or (of,)) - {NoneType} for name, of in _hints(kind).items()}
    plain = (str, bool, int, float)
    return {name: of.pop() for name, of in kinds.items() if len(of) == 1 and of <= {*plain}}


def _read(kind: Any, values: Any) -> Any:
    if kind is Any:
        return values
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _read_union(get_args(kind), values)
    if origin is Literal:
        if values not in get_args(kind):
            raise ValueError(f"{values!r} is not one of {get_args(kind)}")
        return values
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(values, dict):
            raise TypeError("must be an object")
        known = _hints(kind)
        return kind(**{n: _read(known[n], item) for n, item in values.items() if n in known})
    if origin is not None:
        return _read_many(origin, get_args(kind), values)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(values)
    return _read_plain(kind, values)


def _read_union(kinds: tuple[Any, ...], values: Any) -> Any:
    if values is None and NoneType in kinds:
        return None
    problem: Exception = ValueError(f"{values!r} fits none of {kinds}")
    for kind in kinds:
        try:
            return _read(kind, values)
        except (TypeError, ValueError, KeyError) as error:
            problem = error
    raise problem


def _read_many(origin: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(values, dict):
            raise TypeError("must be an object")
        return {_key(kinds[0], name): _read(kinds[1], item) for name, item in values.items()}
    if not isinstance(values, list):
        raise TypeError("must be a list")
    if origin is tuple and kinds[1:] != (Ellipsis,):
        if len(values) != len(kinds):
            raise ValueError(f"must have {counted(len(kinds), 'item')}")
        return tuple(_read(kind, item) for kind, item in zip(kinds, values, strict=True))
    make = origin if origin in (tuple, list, set, frozenset) else tuple
    return make(_read(kinds[0], item) for item in values)


def _key(kind: Any, name: str) -> Any:
    return int(name) if kind is int else name


def _read_plain(kind: Any, values: Any) -> Any:
    if kind is bytes:
        return bytes.fromhex(values)
    if kind is Path:
        return Path(values).expanduser()
    if kind is float and type(values) in (int, str):
        return _NUMBERS[values] if isinstance(values, str) else float(values)
    if kind in (bool, int, float, str, NoneType) and type(values) is not kind:
        raise TypeError(f"must be {kind.__name__}, not {type(values).__name__}")
    return values
