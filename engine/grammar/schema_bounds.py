"""Which JSON schemas are small and simple enough to hold an answer to."""

import math
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote


def pointed_at(root: Mapping[str, Any], reference: str) -> Any:
    """Return what a reference such as ``#/$defs/a`` leads to; None where there is nothing.

    See https://www.rfc-editor.org/rfc/rfc6901#section-6
    """
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name[:9]) < len(node):
            node = node[int(name[:9])]
        else:
            return None
    return node


# The compiler of grammars (llguidance) recurses over references, computes with 64 bit integers,
# and has no limit of its own where it intersects patterns (each costs 2.6 times the one before),
# compares names' patterns with one another, or counts to a multiple: beyond these bounds it crashes
# the process or takes seconds. This module walks a schema without recursion, and stops at the first
# bound that is exceeded.

MAX_CHARACTERS = 256 * 1024
MAX_PARTS = 20_000
MAX_LEVELS = 100
MAX_LEVELS_REFERRED = 250
MAX_REFERENCES = 2_000
MAX_PROPERTIES = 5_000
MAX_CHOICES = 10_000
MAX_PATTERN_CHARACTERS = 4_000
MAX_NAME_PATTERNS = 100
MAX_COMBINED_PATTERNS = 12
MAX_MULTIPLES = 100_000
MAX_COUNT = 2**31 - 1
# The library rounds limits to doubles, cuts them to 64 bits and then negates them. Negating -2**63
# overflows and crashes the process, so numbers that round to -2**63 are refused as well.
MIN_NUMBER = -(2**63) + 1024
MAX_NUMBER = 2**64

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
           "minContains", "maxContains")  # fmt: skip
# Their values reach the compiler in the same way as limits.
_CHECKED = frozenset({"const", "enum"})
# Parts that apply to the same value as the part that holds them.
_APPLIED = ("allOf", "anyOf", "oneOf", "$ref")
_COMBINED = frozenset(
    {*_APPLIED, "properties", "items", "prefixItems", "additionalProperties", "pattern", "format",
     "multipleOf"}
)  # fmt: skip
_ANNOTATIONS = frozenset({"default", "example", "examples", "required"})
_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_SHOWN = 80
_RANGE = f"numbers from {MIN_NUMBER} to {MAX_NUMBER} are supported"


class Bounds:
    """The sizes of all schemas of one request.

    ``check`` is called for each schema; their sizes add up.
    """

    def __init__(self) -> None:
        self._characters = 0
        self._parts = 0
        self._references = 0
        self._properties = 0
        self._choices = 0
        self._name_patterns = 0
        self._multiples = 0

    def check(self, schema: Mapping[str, Any]) -> None:
        """Check that a schema keeps within the bounds."""
        targets: dict[int, list[Any]] = {}
        combined = _Combined()
        stack = [_Place(schema, _SCHEMA, 1, None)]
        while stack:
            place = stack.pop()
            node = place.node
            if place.level > MAX_LEVELS:
                raise ValueError(f"nested too deeply: at most {MAX_LEVELS} levels are supported")
            if place.kind is _SCHEMA and isinstance(node, Mapping):
                self._check_keywords(schema, place, targets)
                combined.add(place)
            self._count(place)
            stack.extend(_inner(place))
        if targets and _depth(schema, targets) > MAX_LEVELS_REFERRED:
            raise ValueError(
                f"its references are nested too deeply: at most {MAX_LEVELS_REFERRED} levels "
                "are supported"
            )
        combined.check()

    def _count(self, place: "_Place") -> None:
        node = place.node
        # Counted before its inner parts are visited, because there may be millions of them.
        self._parts += _size(node)
        if self._parts > MAX_PARTS:
            raise ValueError(f"it has more than {MAX_PARTS} parts")
        if isinstance(node, str):
            self._characters += len(node)
        elif isinstance(node, Mapping):
            self._characters += sum(len(key) if isinstance(key, str) else 1 for key in node)
        elif isinstance(node, (int, float)):
            self._characters += 1
            if not _is_finite(node):
                raise ValueError(f"the number at {place.path()} cannot be written as JSON")
            if place.kind is _CHECKED_VALUE and not _is_supported(node):
                raise ValueError(f"the number at {place.path()} is out of range: {_RANGE}")
        if self._characters > MAX_CHARACTERS:
            raise ValueError(f"longer than {MAX_CHARACTERS} characters, written as JSON")

    def _check_keywords(
        self, root: Mapping[str, Any], place: "_Place", targets: dict[int, list[Any]]
    ) -> None:
        node: Mapping[str, Any] = place.node
        for key in _NUMBERS:
            value = node.get(key)
            if not _is_number(value) or _is_tightened(key, value):
                continue
            if not _is_supported(value):
                raise ValueError(f"{key} at {place.path()} is out of range: {_RANGE}")
        for key in _COUNTS:
            value = node.get(key)
            if _is_number(value) and not 0 <= value <= MAX_COUNT:
                raise ValueError(
                    f"{key} at {place.path()} is out of range: numbers from 0 to {MAX_COUNT} "
                    "are supported"
                )
        for pattern in _patterns(node):
            if len(pattern) > MAX_PATTERN_CHARACTERS:
                raise ValueError(
                    f"a pattern at {place.path()} is longer than {MAX_PATTERN_CHARACTERS} "
                    "characters"
                )
        self._name_patterns += _size(node.get("patternProperties"))
        if self._name_patterns > MAX_NAME_PATTERNS:
            raise ValueError(f"it has more than {MAX_NAME_PATTERNS} patternProperties")
        if _is_number(multiple := node.get("multipleOf")):
            self._multiples += _counted_to(multiple)
            if self._multiples > MAX_MULTIPLES:
                raise ValueError(
                    f"multipleOf at {place.path()}: without their powers of ten, the numbers of "
                    f"all multipleOf together may be up to {MAX_MULTIPLES}"
                )
        self._properties += _size(node.get("properties")) + _size(node.get("patternProperties"))
        if self._properties > MAX_PROPERTIES:
            raise ValueError(f"it has more than {MAX_PROPERTIES} properties")
        self._choices += sum(_size(node.get(key)) for key in ("enum", "anyOf", "oneOf"))
        if self._choices > MAX_CHOICES:
            raise ValueError(f"it has more than {MAX_CHOICES} values to choose from")
        if isinstance(reference := node.get("$ref"), str):
            self._references += 1
            if self._references > MAX_REFERENCES:
                raise ValueError(f"it has more than {MAX_REFERENCES} references")
            targets[id(node)] = _target(root, reference)


class _Combined:
    """What may apply to one value at once, where a schema combines parts.

    Patterns apply to one value only if they are at properties of one name, or at least one of them
    is where it has no name (in items, definitions and the like).
    """

    def __init__(self) -> None:
        self._is_combining = False
        self._patterns: dict[str | int | None, set[object]] = {None: set()}
        self._multiple = 1

    def add(self, place: "_Place") -> None:
        """Note a part's patterns and multiples."""
        node: Mapping[str, Any] = place.node
        applied = [key for key in _APPLIED if key in node]
        if applied:
            parts = node.get("allOf")
            is_several = isinstance(parts, list) and len(parts) > 1
            self._is_combining |= is_several or len(node.keys() & _COMBINED) > 1
        if _is_number(multiple := node.get("multipleOf")):
            self._multiple = math.lcm(self._multiple, _counted_to(multiple))
        found = {
            (key, node[key]) for key in ("pattern", "format") if isinstance(node.get(key), str)
        }
        if found:
            self._patterns.setdefault(place.name(), set()).update(found)

    def check(self) -> None:
        """Check that combined parts keep within the bounds."""
        if not self._is_combining:
            return
        if self._multiple > MAX_MULTIPLES:
            raise ValueError(
                f"it combines parts, and the least common multiple of its multipleOf is larger "
                f"than {MAX_MULTIPLES}"
            )
        unnamed = self._patterns.pop(None)
        most = max((len(unnamed | named) for named in self._patterns.values()), default=0)
        if max(most, len(unnamed)) > MAX_COMBINED_PATTERNS:
            raise ValueError(
                f"it combines parts, and more than {MAX_COMBINED_PATTERNS} patterns or formats may "
                "apply to one value"
            )


_SCHEMA, _NAMES, _CHECKED_VALUE, _VALUE = object(), object(), object(), object()


class _Place(NamedTuple):
    """A part of a schema, its kind, and its place."""

    node: Any
    kind: object
    level: int
    above: "tuple[_Place, str | int] | None"

    def path(self) -> str:
        """Return its JSON pointer, cut where it is long."""
        steps: list[str] = []
        place: _Place = self
        while place.above is not None:
            place, step = place.above
            steps.append(str(step)[:_SHOWN])
        text = "#" + "".join(f"/{step}" for step in reversed(steps))
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def name(self) -> str | int | None:
        """Return the name of the property that it describes; None where it has none."""
        place: _Place = self
        while place.above is not None:
            above, step = place.above
            if above.kind is _NAMES and above.above is not None:
                return step if above.above[1] == "properties" else None
            if step not in _APPLIED and not isinstance(step, int):
                return None
            place = above
        return None


def is_nested_too_deeply(value: Any) -> bool:
    """Return whether a JSON value has more levels than a schema may have."""
    level = [value]
    for _ in range(MAX_LEVELS):
        level = [inner for node in level for inner in _containers(node)]
    return bool(level)


def _inner(place: _Place) -> Iterator[_Place]:
    """Yield the parts right below a part."""
    node, kind, level = place.node, place.kind, place.level + 1
    if isinstance(node, Mapping):
        for key, value in node.items():
            inner = _SCHEMA if kind is _NAMES else kind
            if kind is _SCHEMA:
                inner = _kind_of(key)
            yield _Place(value, inner, level, (place, key))
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            yield _Place(value, kind, level, (place, index))


def _kind_of(keyword: Any) -> object:
    """Return the kind of a keyword's value."""
    if keyword in _SCHEMAS_BY_NAME:
        return _NAMES
    if keyword in _CHECKED:
        return _CHECKED_VALUE
    return _VALUE if keyword in _ANNOTATIONS else _SCHEMA


def _depth(schema: Mapping[str, Any], targets: dict[int, list[Any]]) -> int:
    """Return the depth of a schema with each reference replaced by its target.

    A reference to a part that contains it adds nothing.
    """
    depths: dict[int, int] = {}
    path: dict[int, Iterator[Any]] = {id(schema): _below(schema, targets)}
    deepest = {id(schema): 0}
    order = [id(schema)]
    while order:
        here = order[-1]
        for node in path[here]:
            key = id(node)
            if key in depths:
                deepest[here] = max(deepest[here], depths[key])
            elif key not in path:
                path[key] = _below(node, targets)
                deepest[key] = 0
                order.append(key)
                break
        else:
            order.pop()
            depths[here] = deepest[here] + 1
            del path[here]
            if order:
                deepest[order[-1]] = max(deepest[order[-1]], depths[here])
    return depths[id(schema)]


def _below(node: Any, targets: dict[int, list[Any]]) -> Iterator[Any]:
    yield from _containers(node)
    yield from targets.get(id(node), ())


def _containers(node: Any) -> Iterator[Any]:
    """Yield the objects and lists right below a value."""
    inner = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    yield from (value for value in inner if isinstance(value, (Mapping, list)))


def _target(root: Mapping[str, Any], reference: str) -> list[Any]:
    """Return the target of a reference within the document; an empty list for any other."""
    if not reference.startswith("#"):
        return []
    target = pointed_at(root, reference)
    return [target] if isinstance(target, (Mapping, list)) else []


def _patterns(node: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(pattern := node.get("pattern"), str):
        yield pattern
    named = node.get("patternProperties")
    if isinstance(named, Mapping):
        yield from (key for key in named if isinstance(key, str))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (Mapping, list, tuple)) else 0


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= sys.float_info.max_exp
    return math.isfinite(value)


def _counted_to(multiple: float) -> int:
    """Return how far the compiler counts for a multiple: its digits, without powers of ten."""
    digits = Decimal(str(multiple)).normalize().as_tuple().digits
    return max(1, int("".join(map(str, digits))))


def _is_tightened(key: str, value: float) -> bool:
    """Return whether a bound is so wide that a narrower one is enforced instead of it."""
    if key in ("minimum", "exclusiveMinimum"):
        return _is_finite(value) and value < MIN_NUMBER
    return key in ("maximum", "exclusiveMaximum") and _is_finite(value) and value > MAX_NUMBER


def _is_supported(value: float) -> bool:
    return _is_finite(value) and MIN_NUMBER <= value <= MAX_NUMBER
