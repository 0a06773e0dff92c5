"""Schemas that end a process whose compiler of grammars (llguidance 1.9) is given them."""

from typing import Any


def chain(length: int) -> dict[str, Any]:
    """Return arrays of arrays, each of which the one before refers to."""
    nested: dict[str, Any] = {
        f"d{n}": {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": nested | {f"d{length}": {"type": "integer"}}}


def aliases(length: int) -> dict[str, Any]:
    names: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": names | {f"d{length}": {"type": "integer"}}}


def optional(count: int) -> dict[str, Any]:
    properties = {f"p{n}": {"type": "integer"} for n in range(count)}
    return {"type": "object", "properties": properties, "additionalProperties": False}


DEADLY: dict[str, dict[str, Any]] = {
    "limits of -1e19": {"type": "integer", "minimum": -1e19, "maximum": -1e19},
    "limits of -2**63": {"type": "integer", "minimum": -(2**63), "maximum": -(2**63)},
    "limits that round to -2**63": {
        "type": "integer",
        "minimum": -(2**63) + 1,
        "maximum": -(2**63) + 1,
    },
    "const": {"const": -(2**63)},
    "enum": {"type": "integer", "enum": [1, -1e19]},
    "chain of 1,500": chain(1500),
    "4,000 aliases": aliases(4000),
}
