"""The lists of request parameters, made from the server's own OpenAPI document.

What a parameter may be comes from the code; what it does is said in the page, and kept when the
list is made again. A test finds parameters of which the page does not yet say what they do.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

from api.dialects.shared.parameters import Vendor
from api.dialects.shared.unknown_parameters import REFUSED
from api.server.openapi import document
from api.server.routes import TABLE

_Schema = dict[str, Any]
_Field = tuple[str, str]
"""The name of a parameter, and what it may be."""


def _columns(vendor: str) -> list[str]:
    """The paths of a vendor's routes with parameters; of routes with one summary, the first."""
    found: dict[str, str] = {}
    for dialect, route in TABLE:
        if dialect is not None and dialect.vendor == vendor and route.request:
            found.setdefault(route.summary, route.path)
    return list(found.values())


VENDORS = {vendor: _columns(vendor) for vendor in get_args(Vendor)}
# Objects of ours are the same in every dialect and have a list of their own.
_OWN = "fullstop"
_REFUSED = "`null`"
_PLURALS = {
    "string": "texts",
    "integer": "whole numbers",
    "number": "numbers",
    "object": "objects",
    "array": "lists",
}
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "object": "an object",
}
# Bounds beyond this are those of 64 bits, which nobody comes to by accident.
_HUGE = 2**53


@cache
def requests() -> dict[str, list[_Field]]:
    """Return the parameters of every route that reads any, by the route's path."""
    whole = document(TABLE)
    schemas = whole["components"]["schemas"]
    found: dict[str, list[_Field]] = {}
    for path, operations in whole["paths"].items():
        body = operations.get("post", {}).get("requestBody")
        if body is not None:
            schema = body["content"]["application/json"]["schema"]
            found[path] = list(_fields(schema, schemas, ""))
    return found


def parameters(vendor: str, before: str) -> str:
    """Return the list of a vendor's parameters, with the meanings that stand in ``before``."""
    columns, every = VENDORS[vendor], requests()
    taken: dict[_Field, list[str]] = {}
    for path in columns:
        for field in every[path]:
            taken.setdefault(field, []).append(path)
    return _table(columns if len(columns) > 1 else [], taken, before)


def own_parameters(before: str) -> str:
    """Return the list of what is in the object ``fullstop``, with the meanings in ``before``."""
    schemas = document(TABLE)["components"]["schemas"]
    own = {"$ref": "#/components/schemas/FullstopOptions"}
    return _table([], {field: [] for field in _fields(own, schemas, f"{_OWN}.")}, before)


def _table(columns: list[str], taken: dict[_Field, list[str]], before: str) -> str:
    head = ["parameter", "value", "what it does", *(f"`{path}`" for path in columns)]
    lines = [head, ["---"] * len(head)]
    known = meanings(before)
    by_name = {name: meaning for (name, _), meaning in known.items()}  # where its value changed
    for (name, may_be), paths in taken.items():
        marks = ["yes" if path in paths else "" for path in columns]
        meaning = known.get((name, may_be)) or by_name.get(name, "")
        lines.append([f"`{name}`", may_be, meaning, *marks])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def meanings(listed: str) -> dict[_Field, str]:
    """Return what a list says that its parameters do."""
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*?) *\|", listed, re.MULTILINE)
    return {(name, may_be): meaning for name, may_be, meaning in rows}


def _fields(schema: _Schema, schemas: _Schema, prefix: str) -> Iterator[_Field]:
    for name, field in _resolved(schema, schemas)["properties"].items():
        inner = _object_of(field, schemas)
        if inner is not None and not prefix and name != _OWN:
            yield from _fields(inner, schemas, f"{name}.")
        else:
            yield prefix + name, _may_be(field, schemas)


def _resolved(schema: _Schema, schemas: _Schema) -> _Schema:
    reference = schema.get("$ref")
    return schemas[reference.rpartition("/")[2]] if reference else schema


def _object_of(field: _Schema, schemas: _Schema) -> _Schema | None:
    """Return the object with named fields that a field may be, if it may be one."""
    for one in field.get("anyOf", [field]):
        schema = _resolved(one, schemas)
        if schema.get("properties"):
            return schema
    return None


def _may_be(field: _Schema, schemas: _Schema) -> str:
    schema = _resolved(field, schemas)
    if "anyOf" in schema or "oneOf" in schema:
        several = schema.get("anyOf") or schema["oneOf"]
        kinds = (_may_be(one, schemas) for one in several if one.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" if one else '`""`' for one in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_WORDS[one] for one in kind if one != "null")
    if kind is None:
        return _REFUSED
    if kind == "array":
        return _list(schema, schemas)
    return _WORDS[kind] + _bounds(schema)


def _list(schema: _Schema, schemas: _Schema) -> str:
    item = _resolved(schema.get("items", {}), schemas)
    what = _PLURALS.get(item.get("type", "object"), "objects")
    most = f"up to {schema['maxItems']} " if "maxItems" in schema else ""
    return f"a list of {most}{what}"


def _bounds(schema: _Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and abs(least) > _HUGE:
        return ""
    if least is not None and most is not None:
        return f" from {least:.10g} to {most:.10g}"
    if least is not None:
        return f", at least {least:.10g}"
    if "maxLength" in schema:
        return f" of up to {schema['maxLength']:,} characters"
    return ""


def refused_parameters(before: str) -> str:
    """Return the parameters that are refused where a route does not have them, by their effect."""
    by_effect: dict[str, list[str]] = {}
    for name, effect in REFUSED.items():
        by_effect.setdefault(effect, []).append(f"`{name}`")
    rows = (f"| {what} | {', '.join(names)} |" for what, names in by_effect.items())
    return "\n".join(["| what is refused | parameters |", "| --- | --- |", *rows])


PARAMETERS: dict[str, Callable[[str], str]] = {
    "refused parameters": refused_parameters,
    **{
        f"parameters of {vendor}": lambda before, vendor=vendor: parameters(vendor, before)  # type: ignore[misc]
        for vendor in VENDORS
    },
    "parameters of our own": own_parameters,
}
