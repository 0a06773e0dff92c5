"""What a JSON schema allows, without its references and choices. Pure; any thread.

The grammar of a call writes what the reader of the call expects, because both ask here.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

Alternative = tuple[Mapping[str, Any], ...]
"""Parts of a schema that a value fulfils together; none has a reference, choice or definition."""

TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_MAX_DEPTH = 32
_MAX_ALTERNATIVES = 64
_MAX_VISITS = 1_000
_FOLLOWED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"})
# Names of types that tools use beside those of JSON Schema.
_OTHER_NAMES = {
    "str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number",
    "double": "number", "bool": "boolean", "dict": "object", "list": "array", "tuple": "array",
}  # fmt: skip
_PYTHON_TYPES = {
    bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object",
}  # fmt: skip
# Keywords that apply to one type only, where a schema does not name it.
_IMPLIED = {"properties": "object", "items": "array", "prefixItems": "array"}


def alternatives(
    schema: object, root: object, seen: tuple[int, ...] = (), visits: Iterator[int] | None = None
) -> list[Alternative]:
    """Return the alternatives of which a value fulfils one; none where there are too many.

    ``seen`` are the schemas around it: one around itself adds nothing. References can lead to the
    same schemas without end, so that visits are counted.
    """
    visits = count() if visits is None else visits
    if schema is False:
        return []
    if not isinstance(schema, Mapping):
        return [({},)]
    if len(seen) > _MAX_DEPTH or next(visits) > _MAX_VISITS:
        return []
    seen = (*seen, id(schema))
    choices: list[Sequence[Any]] = [[part] for part in listed(schema, "allOf")]
    choices += [branches for key in ("anyOf", "oneOf") if (branches := listed(schema, key))]
    if (reference := schema.get("$ref")) is not None:
        choices.append([resolve_reference(reference, root)])
    own = {key: value for key, value in schema.items() if key not in _FOLLOWED}
    found: list[Alternative] = [(own,)]
    for branches in choices:
        others = [branch for branch in branches if id(branch) not in seen]
        if not others:
            continue
        options = [one for branch in others for one in alternatives(branch, root, seen, visits)]
        if len(found) * len(options) > _MAX_ALTERNATIVES:
            return []
        found = [(*some, *more) for some in found for more in options]
    return [*found, ({"type": "null"},)] if schema.get("nullable") is True else found


def listed(schema: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return a keyword's list; empty where it has none."""
    value = schema.get(key)
    return value if isinstance(value, (list, tuple)) else ()


def declared(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties that one part of a schema declares."""
    properties = part.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def values_of(part: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the only values that a part of a schema allows; None where it does not list them."""
    return [part["const"]] if "const" in part else listed(part, "enum") or None


def allowed_types(alternative: Alternative) -> tuple[frozenset[str], tuple[str, ...] | None]:
    """Return the types that an alternative allows, and the only texts, where it lists values."""
    types, texts = TYPES, None
    for part in alternative:
        types &= _own_types(part)
        if (values := values_of(part)) is not None:
            types &= {_PYTHON_TYPES.get(type(value), "null") for value in values}
            texts = tuple(value for value in values if isinstance(value, str))
    return types, texts


def _own_types(part: Mapping[str, Any]) -> frozenset[str]:
    names = part.get("type")
    if names is None:
        implied = {name for keyword, name in _IMPLIED.items() if keyword in part}
        return frozenset(implied) or TYPES
    plain = {str(name).lower() for name in (listed(part, "type") or [names])}
    types = {_OTHER_NAMES.get(name, name) for name in plain} & TYPES
    if "number" in types:
        types.add("integer")
    return frozenset(types) or TYPES


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
