"""Schemas: those that end a process whose compiler is given them, and those of schema libraries."""

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


# Given to the compiler of grammars (llguidance 1.9), these end its process or take it minutes.
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
    "20 patterns at once": {"allOf": [{"pattern": f".*{n}.{{{n}}}"} for n in range(20)]},
    "20 patterns of one property": {
        "allOf": [{"properties": {"a": {"pattern": f"a{n}.*z"}}} for n in range(20)]
    },
    "multiples": {"type": "integer", "multipleOf": 10_000_019},
    "multiples of both": {"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]},
    "4,000 patterns of names": {"patternProperties": {f"^k{n}[a-z]+$": {} for n in range(4000)}},
}


def record(**names: Any) -> dict[str, Any]:
    """Return an object whose keys are described."""
    return {"type": "object", "propertyNames": names, "additionalProperties": {"type": "boolean"}}


def one_of(*kinds: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [closed(a=kind) for kind in kinds]}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text(**keywords: Any) -> dict[str, Any]:
    return {"type": "string", **keywords}


SAFE = {"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1}
COLOR = {"enum": ["r", "g"], "title": "Color", "type": "string"}
TREE = closed(v={"type": "boolean"}, kids={"maxItems": 1, "items": {"$ref": "#"}, "type": "array"})
OPEN = {"type": "object"}
SET = {"type": "array", "uniqueItems": True}
# One of each shape that zod 4 (z.toJSONSchema) writes for its types.
ZOD: dict[str, dict[str, Any]] = {
    "string": text(minLength=2, maxLength=5),
    "startsWith": text(format="starts_with", pattern="^ab.*"),
    "includes": text(format="includes", pattern="q"),
    "uppercase": text(format="uppercase", pattern="^[^a-z]*$"),
    "uuid": text(format="uuid", pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
    "hostname": text(format="hostname", pattern=r"^(?=.{1,253}\.?$)[a-z]([a-z-]{0,61}[a-z])?$"),
    "base64": text(format="base64", contentEncoding="base64", pattern="^([0-9a-zA-Z+/]{4})*$"),
    "jwt": text(format="jwt"),
    "emoji": text(format="emoji", pattern=r"^(?=[\s\S]*[x-z])[a-z]+$"),
    "mac": text(format="mac", pattern="^([0-9A-F]{2}:){5}[0-9A-F]{2}$"),
    "date": text(format="date", pattern=r"^\d{4}-\d{2}-\d{2}$"),
    "duration": text(format="duration", pattern=r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?.*)$"),
    "datetime": text(format="date-time", pattern=r"T.*Z$"),
    "safe integer": SAFE,
    "float32": {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4e38},
    "float64": {"type": "number", "minimum": -1.797e308, "maximum": 1.797e308},
    "multiple": {"type": "number", "multipleOf": 5},
    "literals": {"enum": ["a", 1, True, None]},
    "never": {"type": "object", "properties": {"a": {"not": {}}}, "additionalProperties": False},
    "unrepresentable": {},
    "file": text(format="binary", contentEncoding="binary", contentMediaType="image/png"),
    "tuple": {"type": "array", "prefixItems": [text(maxLength=3), SAFE], "items": False},
    "tuple, draft 7": {"items": [SAFE, {"type": "boolean"}], "additionalItems": False},
    "tuple with rest": {"prefixItems": [{"type": "boolean"}], "items": SAFE, "minItems": 1},
    "record": record(type="string"),
    "record of an enum": {**record(type="string", enum=["a", "b"]), "required": ["a", "b"]},
    "partial record": record(type="string", enum=["a", "b"]),
    "record of a pattern": record(type="string", pattern="^k[0-9]$"),
    "record of a union": record(anyOf=[{"const": "a"}, {"const": "b"}]),
    "record of short keys": record(type="string", maxLength=3),
    "loose record": {"type": "object", "patternProperties": {"^x_": SAFE}},
    "discriminated union": one_of({"const": "a"}, {"const": "b"}),
    "exclusive union": {"oneOf": [closed(a=SAFE), closed(b=SAFE)]},
    "intersection": {"allOf": [closed(a={"type": "boolean"}), record(type="string")]},
    "nullable": {"type": ["string", "null"]},
    "nullable, OpenAPI 3.0": {"type": "string", "enum": [None], "nullable": True},
    "positive, draft 4": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    "read-only": {**closed(a=SAFE), "readOnly": True},
    "recursive": TREE,
    "registered": {"$ref": "#/$defs/My", "$defs": {"My": text(id="My", deprecated=True)}},
    "several patterns": {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^.{0,9}$"}]},
}
# The same of pydantic (model_json_schema).
PYDANTIC: dict[str, dict[str, Any]] = {
    **{f"format {name}": text(format=name) for name in (
        "binary", "date", "date-time", "directory-path", "duration", "email", "ipv4", "ipv6",
        "ipv4network", "ipvanyaddress", "json-string", "multi-host-uri", "password", "path",
        "regex", "time", "uri", "uuid", "uuid4",
    )},
    "short uuid4": text(format="uuid4", maxLength=8),
    "Json": text(contentMediaType="application/json", contentSchema={"type": "array"}),
    "SecretStr": text(format="password", writeOnly=True),
    "Decimal": {"anyOf": [{"type": "number"}, text(pattern=r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$")]},
    "ByteSize": {"anyOf": [text(pattern=r"^\s*(\d*\.?\d+)\s*(\w+)?"), {"type": "integer"}]},
    "conint": {"exclusiveMinimum": 1, "maximum": 9, "type": "integer"},
    "conlist": {"items": {"type": "boolean"}, "maxItems": 2, "minItems": 1, "type": "array"},
    "set of an enum": {**SET, "items": {"$ref": "#/$defs/C"}, "$defs": {"C": COLOR}},
    "frozenset of booleans": {**SET, "items": {"type": "boolean"}, "minItems": 1},
    "set of one": {**SET, "items": text(), "maxItems": 1},
    "NamedTuple": {"prefixItems": [SAFE, text(default="a")], "minItems": 1, "maxItems": 2},
    "dict of an enum": {**record(**{"$ref": "#/$defs/C"}), "$defs": {"C": COLOR}},
    "dict of UUIDs": record(format="uuid"),
    "dict of dates": record(format="date"),
    "small dict": {"additionalProperties": SAFE, "minProperties": 1, "maxProperties": 2},
    "mixed enum": {"enum": ["a", 1], "title": "Mixed"},
    "reference with siblings": {
        "$defs": {"C": COLOR},
        "properties": {"c": {"$ref": "#/$defs/C", "default": "r", "description": "d"}},
    },
    "discriminated": {
        "oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
        "discriminator": {"propertyName": "t", "mapping": {"a": "#/$defs/A", "b": "#/$defs/B"}},
        "$defs": {
            "A": {**OPEN, "properties": {"t": {"const": "a"}, "m": SAFE}, "required": ["m"]},
            "B": {**OPEN, "properties": {"t": {"const": "b"}}, "required": ["t"]},
        },
    },
    "recursive alias": {
        "$ref": "#/$defs/J",
        "$defs": {"J": {"anyOf": [SAFE, {"items": {"$ref": "#/$defs/J"}, "type": "array"}]}},
    },
    "extra allowed": {"additionalProperties": True, "properties": {"a": SAFE}, "type": "object"},
    "examples": {"properties": {"a": {**text(), "examples": ["x"], "foo": "bar"}}, "title": "M"},
}  # fmt: skip
