"""Kinds of JSON values, and the comparison of a value with the kind that a field requires.

Pure; any thread.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.conformance.captures.values import excerpt

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
        fits = self.fits
        return replace(self, name=f"{self.name} or null", fits=lambda v: v is None or fits(v))


def mismatches(value: Any, kind: Kind, path: str = "") -> Iterator[tuple[str, bool]]:
    """Yield a sentence for each value of another kind, and whether it is missing or null."""
    if not kind.fits(value):
        yield _mismatch(path, excerpt(json.dumps(value, ensure_ascii=False)), kind)
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


def _mismatch(path: str, shown: str, kind: Kind) -> tuple[str, bool]:
    sentence = f"{path or 'The event'} is {shown}, where {kind.name} is due."
    return sentence, shown in ("missing", "null")


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
