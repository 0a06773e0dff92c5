"""Kinds of JSON values, and the comparison of a value with the kind that a field requires.

Pure; any thread.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_SHOWN_CHARS = 60

Fields = Mapping[str, "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value; the name of an optional field ends with "?"."""

    name: str
    # Without its inner values.
    fits: Callable[[Any], bool]
    fields: Fields = field(default_factory=dict)
    item: "Kind | None" = None
    # More fields of an object by its ``type``.
    variants: Mapping[str, Fields] = field(default_factory=dict)

    @property
    def or_null(self) -> "Kind":
        """The same kind, or null."""
        fits = self.fits
        return replace(self, name=f"{self.name} or null", fits=lambda v: v is None or fits(v))


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value of another kind than its field requires; an absent one is missing or null."""

    sentence: str
    is_absent: bool


def mismatches(value: Any, kind: Kind, path: str = "") -> Iterator[Mismatch]:
    """Yield the values that are not of the kind that is required, the outermost first."""
    if not kind.fits(value):
        text = json.dumps(value, ensure_ascii=False)
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]} …"
        yield _mismatch(path, shown, kind)
    elif isinstance(value, dict):
        of_type = value.get("type")
        more = kind.variants.get(of_type, {}) if isinstance(of_type, str) else {}
        for name, inner in {**kind.fields, **more}.items():
            bare = name.removesuffix("?")
            inner_path = f"{path}.{bare}".removeprefix(".")
            if bare in value:
                yield from mismatches(value[bare], inner, inner_path)
            elif bare == name:
                yield _mismatch(inner_path, "missing", inner)
    elif kind.item is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from mismatches(item, kind.item, f"{path}[{index}]")


def _mismatch(path: str, shown: str, kind: Kind) -> Mismatch:
    sentence = f"{path or 'The event'} is {shown}, where {kind.name} is due."
    return Mismatch(sentence, shown in ("missing", "null"))


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def one_of(*values: str | None) -> Kind:
    """Return the kind of some strings."""
    name = " or ".join("null" if value is None else f'"{value}"' for value in values)
    return Kind(name, lambda v: (v is None or isinstance(v, str)) and v in values)


def object_of(fields: Fields | None = None, **variants: Fields) -> Kind:
    """Return the kind of an object with fields, and more fields by its ``type``."""
    return Kind("an object", lambda v: isinstance(v, dict), fields or {}, None, variants)


def array_of(item: Kind | None = None) -> Kind:
    """Return the kind of an array."""
    return Kind("an array", lambda v: isinstance(v, list), item=item)


TEXT = Kind("a string", lambda v: isinstance(v, str))
NAME = Kind("a string that is not empty", lambda v: isinstance(v, str) and bool(v.strip()))
WHOLE = Kind("a whole number", is_whole)
# Counts of another kind, or below 0, have a finding of their own.
COUNT = Kind("a whole number", lambda v: v is not None)
INDEX = Kind("a whole number from 0", lambda v: is_whole(v) and v >= 0)
FLAG = Kind("true or false", lambda v: isinstance(v, bool))
NUMBER = Kind("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool))
# Arguments of the wrong form have a finding of their own.
ARGUMENTS = Kind("JSON in a string", lambda v: isinstance(v, str | dict | list))
