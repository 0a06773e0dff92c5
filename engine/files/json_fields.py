"""Reads and writes JSON files: values are checked against the types that they are read as.

Files of people and of other programs are read field by field (``Fields``), files of this program
alone as dataclasses (``to_values``, ``from_values``).
"""

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

from engine.errors import EngineError, InvalidRequest
from engine.wording import counted

_T = TypeVar("_T")
# Databases, windows and other programs' numbers have 64 bits.
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_HALF = re.compile("[\ud800-\udfff]")  # of a character beyond U+FFFF
_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}

_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class DamagedFile(EngineError, ValueError):
    """A file has unexpected content; the message names the field and the expected kind."""


def parsed_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises ``DamagedFile``."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DamagedFile("it is not text") from error
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
        """Return a field that must be there; see ``from_values`` for its kinds."""
        value = self.maybe(name, kind)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def maybe(self, name: str, kind: type[_T]) -> _T | None:
        """Return a field; None if it is missing or null."""
        value = self._values.get(name)
        if value is None:
            return None
        # Files of this program alone may hold infinite numbers, and any text.
        if kind is float and isinstance(value, str):
            raise self.wrong(name, "must be a number")
        if kind is str or kind not in _NAMES:
            self._check_text(name, value)
        read: _T = from_values(kind, value, self._where + name)
        return read

    def _check_text(self, name: str, value: Any) -> None:
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except RecursionError as error:
            raise self.wrong(name, "is nested too deeply") from error
        if _HALF.search(text):
            raise self.wrong(name, "contains half of a character (a surrogate)")

    def raw(self, name: str) -> Any:
        """Return a field unchecked; None if it is missing."""
        return self._values.get(name)

    def present(self, *names: str) -> dict[str, Any]:
        """Return the fields of these names that exist and are not null, unchecked."""
        return {name: self._values[name] for name in names if self.has(name)}

    def inner(self, name: str) -> "Fields":
        return Fields(self._values.get(name), f"{self._where}{name}")

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def items(self, name: str) -> "list[Fields]":
        """Return the objects of an inner list; a missing list counts as empty."""
        values = self.maybe(name, list) or []
        return [Fields(value, f"{self._where}{name}[{n}]") for n, value in enumerate(values)]

    def plain(self, kind: type) -> dict[str, Any]:
        """Return the set fields that a dataclass has, those of one text, number or truth value."""
        read = {name: self.maybe(name, of) for name, of in _plain_kinds(kind).items()}
        return {name: value for name, value in read.items() if value is not None}

    def wrong(self, name: str, reason: str) -> DamagedFile:
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


def from_values(kind: Any, value: Any, where: str = "the file") -> Any:
    """Return a value of some type from JSON values, as ``to_values`` writes them.

    Fields that a dataclass does not have are ignored: a later version may add some.

    Args:
        kind: A dataclass, an enumeration, text, bytes, a number, a path, or a collection of them.
        value: What ``json`` read.
        where: The name of the value in an error.

    Raises:
        DamagedFile: The value, or a part of it, is of another type.
    """
    if kind in _NAMES:
        return _read_plain(kind, value, where)
    if kind is Any:
        return value
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _read_union(get_args(kind), value, where)
    if origin is Literal:
        if value not in get_args(kind):
            raise DamagedFile(f"{where}: must be one of {', '.join(map(str, get_args(kind)))}")
        return value
    if dataclasses.is_dataclass(origin):
        return _read_dataclass(kind, value, where)
    if issubclass(origin, Enum):
        try:
            return kind(value)
        except ValueError as error:
            known = ", ".join(str(member.value) for member in kind)
            raise DamagedFile(f"{where}: must be one of {known}") from error
    if issubclass(origin, Path):
        return Path(str(value)).expanduser()
    if issubclass(origin, bytes):
        return _read_bytes(value, where)
    return _read_many(origin, get_args(kind), value, where)


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@lru_cache(maxsize=256)
def _required(kind: type) -> tuple[str, ...]:
    fields = dataclasses.fields(kind)
    return tuple(field.name for field in fields if _default(field) is dataclasses.MISSING)


@lru_cache(maxsize=256)
def _plain_kinds(kind: type) -> dict[str, Any]:
    """Return the types of the fields with a single value, optional ones included."""
    kinds = {name: set(get_args(of) or (of,)) - {NoneType} for name, of in _hints(kind).items()}
    return {name: of.pop() for name, of in kinds.items() if len(of) == 1 and of <= {*_NAMES}}


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if type(value) is int and not _MIN <= value <= _MAX:
        raise DamagedFile(f"{where}: the number is too large")
    if kind is float and type(value) is int:
        return float(value)
    if kind is float and isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    if type(value) is not kind:
        raise DamagedFile(f"{where}: must be {_NAMES[kind]}")
    if kind is float and not math.isfinite(value):
        raise DamagedFile(f"{where}: must be a number, not infinity or NaN")
    return value


def _read_bytes(value: Any, where: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"{where}: must be bytes in hexadecimal digits") from error


def _read_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    fault = DamagedFile(f"{where}: is missing")
    for kind in kinds:
        if kind is not NoneType:
            try:
                return from_values(kind, value, where)
            except DamagedFile as error:
                fault = error
    raise fault


def _read_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise DamagedFile(f"{where}: must be an object")
    known = _hints(kind)
    for name in _required(kind):
        if name not in value:
            raise DamagedFile(f"{where}.{name}: is missing")
    read = {
        n: from_values(known[n], item, f"{where}.{n}") for n, item in value.items() if n in known
    }
    try:
        return kind(**read)
    except (TypeError, ValueError, InvalidRequest) as error:
        raise DamagedFile(f"{where}: {error}") from error


def _read_many(origin: Any, kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise DamagedFile(f"{where}: must be an object")
        key, item = kinds
        return {
            _read_key(key, name, where): from_values(item, inner, f"{where}.{name}")
            for name, inner in value.items()
        }
    if not isinstance(value, list):
        raise DamagedFile(f"{where}: must be a list")
    if origin is tuple and kinds[1:] != (Ellipsis,):
        if len(value) != len(kinds):
            raise DamagedFile(f"{where}: must have {counted(len(kinds), 'item')}")
    else:
        kinds = kinds[:1] * len(value)
    make = origin if origin in (tuple, list, set, frozenset) else tuple
    return make(
        from_values(kind, item, f"{where}[{n}]")
        for n, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _read_key(kind: Any, name: str, where: str) -> Any:
    try:
        return int(name) if kind is int else from_values(kind, name, where)
    except ValueError as error:
        raise DamagedFile(f"{where}: {name[:40]!r} is not a whole number") from error
