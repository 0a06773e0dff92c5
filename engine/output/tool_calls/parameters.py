"""The values of parameters that are written without types: a tool's schema is the guide.

Where text is allowed, text stays text; a text that fits no other declared type stays text as well.
Pure; any thread.
"""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from engine.output.tool_calls.json_text import escaped, is_number, repaired_json
from engine.values.request import Tool

_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_Alternative = tuple[frozenset[str], tuple[Any, ...] | None]
"""Types that a schema allows, and the only values, where it lists them."""
_ANYTHING: tuple[_Alternative, ...] = ((_TYPES, None),)
# Names of types that tools use beside those of JSON Schema.
_OTHER_NAMES = {
    "str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number",
    "double": "number", "bool": "boolean", "dict": "object", "list": "array", "tuple": "array",
}  # fmt: skip
_PYTHON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"),
    (list, "array"), (dict, "object"),
)  # fmt: skip
# Keywords that apply to one type only, where a schema does not name it.
_IMPLIED = {"properties": "object", "items": "array", "prefixItems": "array"}
_CONSTANTS = {"true": "true", "false": "false", "True": "true", "False": "false"}
# Schemas of more alternatives than this, or deeper, allow anything.
_MAX_ALTERNATIVES = 64
MAX_SCHEMA_DEPTH = 32
_MAX_VISITS = 1_000


@dataclass(frozen=True, slots=True)
class ParameterType:
    """What the text of one parameter can be."""

    alternatives: tuple[_Alternative, ...]
    is_declared: bool = True

    @classmethod
    def of(cls, *types: str) -> "ParameterType":
        """Return what a value of these types can be."""
        return cls(((frozenset(types), None),))

    @property
    def is_text(self) -> bool:
        """Whether every text is a string, so that it can be passed on while it arrives."""
        if not self.is_declared:
            return False
        return any("string" in types and values is None for types, values in self.alternatives)

    def json_of(self, text: str) -> str:
        """Return the JSON of a whole value."""
        if self.is_text:
            return _quoted(text)
        stripped = text.strip()
        listed = [value for _, values in self.alternatives for value in values or ()]
        if stripped in listed:
            return _quoted(stripped)
        types = {name for names, _ in self.alternatives for name in names}
        if not self.is_declared:
            types = {"object", "array"}
        return _converted(stripped, types) or _quoted(text)


def _quoted(text: str) -> str:
    return f'"{escaped(text)}"'


def _converted(text: str, types: Collection[str]) -> str | None:
    """Return the JSON of a text that is a value of one of some types, which are no strings."""
    if text == "null":
        return "null" if "null" in types else None
    if text in _CONSTANTS:
        return _CONSTANTS[text] if "boolean" in types else None
    if is_number(text):
        match = _INTEGER.fullmatch(text) if "integer" in types else None
        return text if "number" in types else match[1] if match else None
    for opening, name in (("{", "object"), ("[", "array"), ("(", "array")):
        if text.startswith(opening) and name in types:
            return repaired_json(text) or _python_json(text)
    return None


def _python_json(text: str) -> str | None:
    """Return the JSON of a list, tuple or dictionary in Python; None if the text is none."""
    try:
        found = ast.literal_eval(text)
        if not isinstance(found, (list, tuple, dict)):
            return None
        written = json.dumps(found, ensure_ascii=False, allow_nan=False)
        written.encode()
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return written


class ToolTypes:
    """The types of the parameters of one answer's tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.names = frozenset(tool.name for tool in tools)
        self._schemas = {tool.name: tool.parameters for tool in tools}

    def parameters_of(self, name: str) -> tuple[str, ...]:
        """Return the names of a tool's declared parameters, in their order."""
        root = self._schemas.get(name)
        return tuple(dict.fromkeys(name for part in _parts(root, root) for name in _declared(part)))

    def type_of(self, name: str, parameter: str) -> ParameterType:
        """Return the type of a tool's parameter."""
        root = self._schemas.get(name)
        parts = [*_parts(root, root)]
        declared = [part["properties"][parameter] for part in parts if parameter in _declared(part)]
        if not declared:
            declared = [more for part in parts if (more := part.get("additionalProperties"))]
        if not declared or True in declared:
            return ParameterType(_ANYTHING)  # nothing declares that it is anything but text
        visits = count()
        union = (one for schema in declared for one in _alternatives(schema, root, (), visits))
        found = tuple(dict.fromkeys(union)) or _ANYTHING
        return ParameterType(found, is_declared=_ANYTHING[0] not in found)


def _parts(
    schema: object, root: object, seen: set[int] | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield a schema of objects and all that its references and alternatives consist of."""
    seen = set() if seen is None else seen
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > _MAX_ALTERNATIVES:
        return
    seen.add(id(schema))
    yield schema
    if schema.get("$ref") is not None:
        yield from _parts(resolve_reference(schema["$ref"], root), root, seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword)
        for branch in branches if isinstance(branches, Sequence) else ():
            yield from _parts(branch, root, seen)


def _declared(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties that one part of a schema declares."""
    properties = part.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _alternatives(
    schema: object, root: object, seen: tuple[int, ...], visits: Iterator[int]
) -> list[_Alternative]:
    """Return what a schema allows; ``seen`` are the schemas around it.

    References can lead to the same schemas without end, so that visits are counted.
    """
    if id(schema) in seen:
        return []  # a schema around itself adds nothing
    is_far = len(seen) > MAX_SCHEMA_DEPTH or next(visits) > _MAX_VISITS
    if not isinstance(schema, Mapping) or is_far:
        return list(_ANYTHING)
    seen = (*seen, id(schema))
    found = [_own(schema)]
    if schema.get("$ref") is not None:
        found = _meet(
            found, _alternatives(resolve_reference(schema["$ref"], root), root, seen, visits)
        )
    for keyword in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(keyword), Sequence) and options:
            union = [one for option in options for one in _alternatives(option, root, seen, visits)]
            found = _meet(found, union)
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, Sequence) else ():
        found = _meet(found, _alternatives(part, root, seen, visits))
    if schema.get("nullable") is True:
        found.append((frozenset({"null"}), None))
    return found if len(found) <= _MAX_ALTERNATIVES else list(_ANYTHING)


def _meet(some: Sequence[_Alternative], others: Sequence[_Alternative]) -> list[_Alternative]:
    if not some or not others:
        return []
    both = {
        (types & more, values if listed is None else listed): None
        for types, values in some
        for more, listed in others
        if types & more
    }
    # If nothing can fulfil a schema, the text decides.
    return list(both) or list(_ANYTHING)


def _own(schema: Mapping[str, Any]) -> _Alternative:
    """Return what a schema allows by its own type or values."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, Sequence) and not isinstance(values, str) and values:
        named = (_type_name(value) for value in values)
        return frozenset(named), tuple(v for v in values if isinstance(v, str))
    names = schema.get("type")
    if names is None:
        implied = {name for keyword, name in _IMPLIED.items() if keyword in schema}
        return frozenset(implied) or _TYPES, None
    listed = [names] if isinstance(names, str) else names if isinstance(names, Sequence) else ()
    plain = {str(name).lower() for name in listed}
    types = {_OTHER_NAMES.get(name, name) for name in plain} & _TYPES
    if "number" in types:
        types.add("integer")
    return frozenset(types) or _TYPES, None


def _type_name(value: object) -> str:
    return next((name for kind, name in _PYTHON_TYPES if isinstance(value, kind)), "null")


def resolve_reference(reference: object, root: object) -> object:
    """Return the schema that a JSON pointer such as ``#/$defs/a`` names; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for part in filter(None, reference[1:].split("/")):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, Sequence) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found
