"""Real schemas of zod and pydantic through a server: every type accepted, every whole answer valid.

    npm install zod --prefix FOLDER
    python -m tests.lab.schema_libraries http://127.0.0.1:8080 [--zod FOLDER/node_modules/zod]

For each type the server is asked for an answer and for a forced call whose argument is of that
type, at temperature 0.8. An answer that the limit cut is counted apart. pydantic's own types check
their answers, jsonschema all of them. Prints what failed, and exits 1 if anything did.
"""

import argparse
import collections
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import typing
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema
import pydantic
from pydantic import Field

_ZOD = """
import { z } from 'ZOD';
const e = z.enum(['a','b','c']), o = z.object({a: z.boolean()});
const node = z.object({v: z.boolean(), get kids() { return z.array(node).max(1) }});
const types = {
  string: z.string().max(9), min: z.string().min(2).max(9), regex: z.string().regex(/^a[0-9]{2}$/),
  startsWith: z.string().startsWith('ab').max(9), includes: z.string().includes('q').max(9),
  upper: z.string().uppercase().max(9), email: z.email(), uuid: z.uuid(), url: z.url().max(20),
  hostname: z.hostname(), base64: z.base64().max(16), hex: z.hex().max(8), jwt: z.jwt().max(9),
  nanoid: z.nanoid(), cuid: z.cuid().max(12), ulid: z.ulid(), ipv4: z.ipv4(), ipv6: z.ipv6(),
  cidr: z.cidrv4(), mac: z.mac(), e164: z.e164(), date: z.iso.date(), time: z.iso.time(),
  datetime: z.iso.datetime(), duration: z.iso.duration(), template: z.templateLiteral(['id-', e]),
  number: z.number(), int: z.int(), int32: z.int32(), float32: z.float32(), float64: z.float64(),
  positive: z.number().positive(), multiple: z.number().multipleOf(5), range: z.int().min(1).max(9),
  boolean: z.boolean(), null: z.null(), literal: z.literal('x'), literals: z.literal(['a',1,null]),
  enum: e, never: z.object({a: z.never().optional()}), file: z.file(), object: o,
  strict: z.strictObject({a: z.int()}), loose: z.looseObject({a: z.boolean()}),
  partial: o.partial(),
  empty: z.object({}), array: z.array(z.boolean()).max(3), length: z.array(z.boolean()).length(2),
  tuple: z.tuple([z.boolean(), z.int()]), rest: z.tuple([z.boolean()], z.boolean()),
  record: z.record(z.string().max(3), z.boolean()), recordEnum: z.record(e, z.boolean()),
  partialRecord: z.partialRecord(e, z.boolean()), recordUuid: z.record(z.uuid(), z.boolean()),
  recordRegex: z.record(z.string().regex(/^k[0-9]$/), z.boolean()),
  union: z.union([z.boolean(), z.int()]), tagged: z.discriminatedUnion('t', [
    z.object({t: z.literal('a'), x: z.boolean()}), z.object({t: z.literal('b'), y: z.int()})]),
  xor: z.xor([o, z.object({b: z.int()})]), and: o.and(z.object({b: z.boolean()})),
  nullable: z.boolean().nullable(), nullish: z.object({a: z.boolean().nullish()}),
  default: z.object({a: z.boolean().default(true)}), readonly: o.readonly(), recursive: node,
  meta: z.boolean().meta({id: 'Mine', title: 'T', examples: [true], deprecated: true}),
  both: z.number().gt(1).lt(2), keyof: z.keyof(o),
  several: z.string().regex(/^a/).regex(/^.{0,9}$/),
};
const out = {};
for (const target of ['draft-2020-12', 'draft-7'])
  for (const [name, type] of Object.entries(types))
    out[`${name}, ${target}`] = z.toJSONSchema(type, {target});
console.log(JSON.stringify(out));
"""


class _Color(enum.Enum):
    RED = "r"
    GREEN = "g"


class _Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    is_old: bool


class _Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    age: Annotated[int, Field(ge=0, le=9)]


class _Tree(pydantic.BaseModel):
    leaf: bool
    kids: Annotated[list["_Tree"], Field(max_length=1)]


class _Pair(typing.NamedTuple):
    first: bool
    second: bool = True


_SHORT = Field(max_length=9)
# Types whose text only pydantic reads (an unknown format) are checked by jsonschema alone.
_FREE_TEXT = frozenset({"Json", "Base64Str", "UUID4", "IPv4Network", "ByteSize", "ZoneInfo"})
_PYDANTIC: dict[str, Any] = {
    "str": Annotated[str, _SHORT], "int": int, "float": float, "bool": bool, "None": None,
    "bytes": Annotated[bytes, _SHORT], "pattern": Annotated[str, Field(pattern=r"^[a-c]{2}$")],
    "conint": pydantic.conint(gt=1, le=9), "confloat": pydantic.confloat(gt=0, lt=1),
    "PositiveInt": pydantic.PositiveInt, "multiple": pydantic.conint(multiple_of=3),
    "Decimal": decimal.Decimal, "date": datetime.date, "datetime": datetime.datetime,
    "time": datetime.time, "timedelta": datetime.timedelta, "UUID": uuid.UUID,
    "UUID4": pydantic.UUID4, "Path": pathlib.Path, "SecretStr": pydantic.SecretStr,
    "Json": pydantic.Json, "Base64Str": pydantic.Base64Str, "ByteSize": pydantic.ByteSize,
    "IPv4Address": ipaddress.IPv4Address, "IPv6Address": ipaddress.IPv6Address,
    "IPv4Network": ipaddress.IPv4Network, "AnyUrl": pydantic.AnyUrl, "Pattern": re.Pattern,
    "list": Annotated[list[bool], Field(max_length=3)], "set": set[bool],
    "frozenset": frozenset[Literal["a", "b"]], "set of an enum": set[_Color],
    "tuple": tuple[bool, int], "deque": Annotated[collections.deque[bool], Field(max_length=3)],
    "dict": Annotated[dict[str, bool], Field(max_length=2)], "dict of an enum": dict[_Color, bool],
    "dict of literals": dict[Literal["a", "b"], int], "dict of UUIDs": dict[uuid.UUID, bool],
    "dict of dates": dict[datetime.date, bool], "Counter": collections.Counter[str],
    "enum": _Color, "Literal": Literal["a", 1, None], "Optional": bool | None,
    "Union": bool | int, "models": _Cat | _Dog,
    "discriminated": Annotated[_Cat | _Dog, Field(discriminator="kind")],
    "model": _Cat, "recursive": _Tree, "NamedTuple": _Pair,
}  # fmt: skip


def zod_schemas(place: str) -> dict[str, Any]:
    """Return what zod writes for its types, by name and draft."""
    script = _ZOD.replace("ZOD", f"{pathlib.Path(place).resolve()}/index.js")
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def asked(base: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the only choice of an answer; raises ``ValueError`` with a refusal's text."""
    turn = {"role": "user", "content": "Count from 1 to 3"}
    fields = {"model": "x", "messages": [turn], "temperature": 0.8, "max_tokens": 400, "seed": 1}
    request = urllib.request.Request(
        f"{base}/v1/chat/completions",
        json.dumps({**fields, **body}).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            choice: dict[str, Any] = json.load(reply)["choices"][0]
            return choice
    except urllib.error.HTTPError as error:
        raise ValueError(error.read().decode()[:300]) from None


def answers(base: str, schema: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield the values of an answer and of a forced call, and whether the limit cut them."""
    whole = {"type": "object", "properties": {"v": _moved(schema)}, "required": ["v"]}
    named = {"name": "answer", "schema": whole, "strict": True}
    choice = asked(base, {"response_format": {"type": "json_schema", "json_schema": named}})
    is_cut = choice["finish_reason"] == "length"
    yield None if is_cut else json.loads(choice["message"]["content"])["v"], is_cut
    function = {"name": "save", "parameters": whole}
    tools = [{"type": "function", "function": function}]
    choice = asked(base, {"tools": tools, "tool_choice": "required"})
    is_cut = choice["finish_reason"] == "length"
    calls = choice["message"].get("tool_calls") or []
    yield None if is_cut else json.loads(calls[0]["function"]["arguments"])["v"], is_cut


def _moved(node: Any) -> Any:
    """Return a schema as the property ``v`` of another one."""
    if isinstance(node, list):
        return [_moved(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    moved = {key: _moved(value) for key, value in node.items() if key != "$schema"}
    if isinstance(reference := node.get("$ref"), str):
        moved["$ref"] = f"#/properties/v{reference[1:]}"
    return moved


def main() -> None:
    """Ask for every type, and print what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("--zod", help="the folder of the package zod")
    options = parser.parse_args()
    cases = [
        (name, pydantic.TypeAdapter(kind).json_schema(), kind) for name, kind in _PYDANTIC.items()
    ]
    if options.zod:
        cases += [(name, schema, Any) for name, schema in zod_schemas(options.zod).items()]
    failures = cut = 0
    for name, schema, kind in cases:
        kinds = jsonschema.Draft7Validator if "draft-7" in name else jsonschema.Draft202012Validator
        checks = kinds(schema, format_checker=kinds.FORMAT_CHECKER)
        try:
            for value, is_cut in answers(options.base, schema):
                cut += is_cut
                if is_cut:
                    continue
                checks.validate(value)
                if name not in _FREE_TEXT:
                    pydantic.TypeAdapter(kind).validate_json(json.dumps(value))
        except (ValueError, jsonschema.ValidationError) as error:
            failures += 1
            print(f"{name}: {str(error)[:300]}")
    print(f"{len(cases)} types, {failures} failed, {cut} answers were cut by the limit")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
