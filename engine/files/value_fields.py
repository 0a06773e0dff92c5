"""Turns frozen values into JSON values and back, by the types of their fields.

For files that only this program writes: a later version may add fields that have defaults. Pure;
any thread.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from engine.files.fields import DamagedFile
from engine.wording import counted

_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


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
            one.name: to_values(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if getattr(value, one.name) != _default(one)
        }
    if isinstance(value, Mapping):
        return {str(name): to_values(one) for name, one in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [to_values(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_values(kind: Any, values: Any) -> Any:
    """Return the value of a type from JSON values; unknown fields are ignored.

    Raises:
        DamagedFile: They do not fit the type.
    """
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
    return {one.name: hints[one.name] for one in dataclasses.fields(kind)}


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
        return kind(**{n: _read(known[n], one) for n, one in values.items() if n in known})
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
        return {_key(kinds[0], name): _read(kinds[1], one) for name, one in values.items()}
    if not isinstance(values, list):
        raise TypeError("must be a list")
    if origin is tuple and kinds[1:] != (Ellipsis,):
        if len(values) != len(kinds):
            raise ValueError(f"must have {counted(len(kinds), 'item')}")
        return tuple(_read(kind, one) for kind, one in zip(kinds, values, strict=True))
    make = origin if origin in (tuple, list, set, frozenset) else tuple
    return make(_read(kinds[0], one) for one in values)


def _key(kind: Any, name: str) -> Any:
    return int(name) if kind is int else name


def _read_plain(kind: Any, values: Any) -> Any:
    if kind is bytes:
        return bytes.fromhex(values)
    if kind is float and type(values) in (int, str):
        return _NUMBERS[values] if isinstance(values, str) else float(values)
    if kind in (bool, int, float, str, NoneType) and type(values) is not kind:
        raise TypeError(f"must be {kind.__name__}, not {type(values).__name__}")
    return values
