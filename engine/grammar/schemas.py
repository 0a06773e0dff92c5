"""Rewrites a JSON schema for the compiler of grammars, within its bounds.

The compiler (llguidance) refuses a schema for one keyword that it does not know. Annotations,
unknown formats among them, are dropped; a keyword that forbids something is written in others, or
else left out and listed. Beyond the bounds on numbers, multiples and patterns the compiler crashes
the process or takes minutes.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeGuard

from engine.output.tool_calls.schema_alternatives import allowed_types, alternatives

MAX_CHARACTERS = 256 * 1024
MAX_LEVELS = 100
MAX_NAME_PATTERNS = 100
MAX_COMBINED_PATTERNS = 12
MAX_MULTIPLES = 100_000
# The compiler cuts limits to 64 bits and negates them: -2**63, and what doubles round to it, end
# the process.
MIN_NUMBER = -(2**63) + 1024
MAX_NUMBER = 2**64
# One blank, or a new line and its indentation. JSON allows any amount of white space, and an unsure
# model would write it until it reaches the limit.
_SPACE = r"[ ]|\n[ \t]{0,40}"
# Overrides the library's options in a schema: "lenient", for example, would allow anything.
_SCHEMA_OPTIONS = {"x-guidance": {"whitespace_pattern": _SPACE, "coerce_one_of": True}}

Schema = Any
"""A JSON schema: an object, true or false."""

# Formats that the compiler knows.
_FORMATS = frozenset({"email", "hostname", "ipv4", "ipv6", "uri", "uuid"})
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = f"{_CLOCK}:[0-5][0-9](?:\\.[0-9]{{1,6}})?(?:Z|[+-]{_CLOCK})"
_LITERAL = r"(?:[A-Za-z0-9 _@:;,#%&=<>~/'\"!-]|\\[dDwWsSbBnrt.*+?()\[\]{}|^$\\/-])"
_ATOM = rf"(?:{_LITERAL}|\.|\[\^?[A-Za-z0-9_.@ ]+\])(?:[*+?]|\{{[1-9]\}})?"
_DAYS = "(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}D)"
_HOURS = _DAYS.translate(str.maketrans("YMD", "HMS"))
# Dates and times that exist (the compiler allows the second 60 and the 29th of each February, which
# no library of clients takes), durations without endless digits, and simple regular expressions.
_PATTERNS = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "duration": f"^P(?:[0-9]{{1,6}}W|{_DAYS}(?:T{_HOURS})?|T{_HOURS})$",
    "regex": rf"^\^?(?:{_ATOM}|\((?:{_ATOM})+(?:\|(?:{_ATOM})+)*\)[*+?]?)*\$?$",
    "time": f"^{_TIME}$",
}
# The compiler knows formats of values only, not of the names of properties.
NAME_PATTERNS = {
    **_PATTERNS,
    "uuid": "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
}
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_BRANCHES = ("allOf", "anyOf", "oneOf")
_LISTS = (*_BRANCHES, "prefixItems")
_SINGLES = ("items", "additionalProperties")
_APPLIED = frozenset({*_BRANCHES, "$ref"})
_DECIDING = frozenset({"additionalProperties", "unevaluatedProperties"})
_NAMING = frozenset({"properties", "patternProperties", *_DECIDING})
_COMBINED = frozenset(
    {"properties", "items", "prefixItems", "additionalProperties", "pattern", "format",
     "multipleOf"}
)  # fmt: skip
_SAYING_NOTHING = frozenset({"$schema", "minContains", "maxContains"})
_UNENFORCED = (
    "$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired",
    "dependentSchemas", "if", "not", "unevaluatedItems", "uniqueItems",
)  # fmt: skip
_LOOK_AROUND = re.compile(r"\(\?<?[=!]|\\[bB1-9]|\\k<")
# A look-ahead that forbids a text of some characters only, as in pydantic's pattern of a Decimal.
_ONLY_OF_CLASS = re.compile(r"\(\?!\^?\[([^\]\\^][^\]\\]*)\]\*\$\)")
ESCAPE_OR_CLASS = re.compile(r"\\[^bB1-9k]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)

PreparedSchema = tuple[dict[str, Any], tuple[str, ...]]
"""A schema that the compiler takes, and the keywords that were left out of it."""


def prepare_schema(schema: Mapping[str, Any], *, allows_more_keys: bool) -> PreparedSchema:
    """Return a schema as it is compiled; raises ``ValueError`` where it is out of bounds.

    Unless ``allows_more_keys``, objects have only the keys that they name: JSON Schema allows
    further ones where ``additionalProperties`` is absent, and a model may write them until its
    limit. A schema that combines objects stays open, for each part would forbid the others' keys.
    """
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()
        return _prepare(text, not allows_more_keys)
    except UnicodeEncodeError as error:
        raise ValueError("it contains a lone surrogate, which is not a character") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except TypeError as error:
        raise ValueError(f"it is not JSON: {error}") from error


@lru_cache(256)
def _prepare(text: str, closes: bool) -> PreparedSchema:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"longer than {MAX_CHARACTERS} characters, written as JSON")
    rewriter = _Rewriter(json.loads(text), closes=closes)
    whole = rewriter.rewrite(rewriter.root, ())
    rewriter.check_combinations()
    return ({"enum": []} if whole is False else whole, tuple(dict.fromkeys(rewriter.left_out)))


def as_rule(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a prepared schema, with our options for the library."""
    return f"%json {json.dumps({**schema, **_SCHEMA_OPTIONS}, ensure_ascii=False)}"


class _Rewriter:
    """Rewrites one schema, part by part."""

    def __init__(self, root: dict[str, Any], *, closes: bool) -> None:
        self.root = root
        self.left_out: list[str] = []
        self._closes = closes and not any(map(_combines_objects, _nodes(root)))
        self._is_combining = False
        self._patterns: set[tuple[str, str]] = set()
        self._multiples: list[int] = []

    def rewrite(self, node: Schema, path: tuple[str, ...]) -> Schema:
        if not isinstance(node, Mapping):
            return node
        if len(path) > MAX_LEVELS:
            raise ValueError(f"nested too deeply: at most {MAX_LEVELS} levels are supported")
        part = {key: value for key, value in node.items() if key not in _SAYING_NOTHING}
        # The steps change the part for each other, and keep this order.
        self._check_numbers(part, path)
        _modernize(part)  # makes the ``prefixItems`` that are rewritten below
        self._name_properties(part, path)  # decides ``additionalProperties`` for some
        self._close(part, path)  # decides it where nothing did so far
        self._split_pattern(part, path)  # makes patterns of formats, several in ``allOf``
        self._note_combinations(part)  # counts those
        if part.get("not") in (True, {}):
            return False  # how zod writes a value that must not be there
        for keyword in _UNENFORCED:
            value = part.pop(keyword, None)
            if not _is_void(keyword, value, node):
                self._list_unenforced(path, keyword)
        self._drop_property_counts(part, path)  # after closing, which adds required properties
        for key in _MAPS:
            if isinstance(inner := part.get(key), Mapping):
                part[key] = {
                    name: self.rewrite(value, (*path, key, name)) for name, value in inner.items()
                }
        for key in _LISTS:
            if isinstance(inner := part.get(key), list):
                part[key] = [
                    self.rewrite(value, (*path, key, str(index)))
                    for index, value in enumerate(inner)
                ]
        for key in _SINGLES:
            if isinstance(inner := part.get(key), Mapping):
                part[key] = self.rewrite(inner, (*path, key))
        return _or_null(part) if part.pop("nullable", None) is True else part

    def _list_unenforced(self, path: tuple[str, ...], keyword: str) -> None:
        self.left_out.append(".".join((*path, keyword)))

    def _check_numbers(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Bring bounds into the compiler's range; refuse numbers that cannot be."""
        for bound, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(part.get(strict), bool) and part.pop(strict) and bound in part:
                part[strict] = part.pop(bound)  # a flag of draft 4
        # The compiler makes one regular expression of the digits of both bounds.
        limit = -MIN_NUMBER if part.get("type") == "integer" else 10**18
        for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            if _is_number(value := part.get(key)):
                is_lower = key.endswith("inimum")
                part[key] = max(value, -limit) if is_lower else min(value, limit)
        values = [part.get(key) for key in ("const", "enum", "multipleOf")]
        values += [part.get(key) for key in ("minimum", "exclusiveMinimum")]
        values += [part.get(key) for key in ("maximum", "exclusiveMaximum")]
        for number in _numbers(values):
            if not MIN_NUMBER <= number <= MAX_NUMBER:
                where = "/".join(("#", *path))
                where = where if len(where) <= 80 else f"{where[:80]}…"
                raise ValueError(
                    f"a number at {where} is out of range: numbers from {MIN_NUMBER} to "
                    f"{MAX_NUMBER} are supported"
                )
        if _is_number(multiple := part.get("multipleOf")):
            # The compiler counts to it, without its powers of ten.
            digits = Decimal(str(multiple)).normalize().as_tuple().digits
            self._multiples.append(max(1, int("".join(map(str, digits)))))

    def _note_combinations(self, part: Mapping[str, Any]) -> None:
        parts = part.get("allOf")
        is_several = isinstance(parts, list) and len(parts) > 1
        is_beside = bool(part.keys() & _APPLIED and part.keys() & _COMBINED)
        self._is_combining |= is_several or is_beside
        for key in ("pattern", "format"):
            if isinstance(text := part.get(key), str):
                self._patterns.add((key, text))
        names = part.get("patternProperties")
        if isinstance(names, Mapping) and len(names) > MAX_NAME_PATTERNS:
            raise ValueError(f"it has more than {MAX_NAME_PATTERNS} patternProperties")

    def check_combinations(self) -> None:
        multiples = math.lcm(*self._multiples) if self._is_combining else sum(self._multiples)
        if multiples > MAX_MULTIPLES:
            raise ValueError(
                f"the numbers of its multipleOf, without their powers of ten, exceed "
                f"{MAX_MULTIPLES} together"
            )
        if self._is_combining and len(self._patterns) > MAX_COMBINED_PATTERNS:
            raise ValueError(
                f"it combines parts, and more than {MAX_COMBINED_PATTERNS} patterns or formats may "
                "apply to one value"
            )

    def _split_pattern(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Write formats as patterns, and look-aheads at a pattern's beginning as patterns."""
        name, pattern = str(part.get("format")), part.get("pattern")
        if name not in _FORMATS:
            part.pop("format", None)
        patterns = [_PATTERNS[name]] if name in _PATTERNS else []
        if isinstance(pattern, str):
            found = _split_look_aheads(pattern) if _looks_around(pattern) else [pattern]
            kept = [text for text in found if not _looks_around(text)]
            # A format says what zod's pattern beside it says.
            if len(kept) < len(found) and name not in {*_FORMATS, *_PATTERNS}:
                self._list_unenforced(path, "pattern")
            patterns = [*kept, *patterns]
            del part["pattern"]
        if patterns:
            part["pattern"], *others = patterns
            if others:
                listed = part.get("allOf")
                listed = listed if isinstance(listed, list) else []
                part["allOf"] = [*listed, *({"pattern": text} for text in others)]

    def _name_properties(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Write what ``propertyNames`` says as the properties that there may be."""
        found = alternatives(part.pop("propertyNames", True), self.root)
        texts = [allowed_types(names)[1] for names in found]
        names = {key: value for each in found[0] for key, value in each.items()} if found else {}
        value, known = part.get("additionalProperties", True), part.get("properties")
        known = known if isinstance(known, Mapping) else {}
        pattern = names.get("pattern", NAME_PATTERNS.get(str(names.get("format"))))
        if length := length_range(names):
            pattern = None if pattern else rf"^[\s\S]{length}$"
        is_plain = isinstance(pattern, str) and not _looks_around(pattern)
        if found and None not in texts and "patternProperties" not in part:
            listed = dict.fromkeys(name for group in texts for name in group or ())
            part["properties"] = {name: known.get(name, value) for name in listed}
            part["additionalProperties"] = False
        elif len(found) == 1 and is_plain and not known:
            part["patternProperties"] = {pattern: value}
            part["additionalProperties"] = False
        elif len(found) != 1 or names.keys() - {"type", "title", "description"}:
            self._list_unenforced(path, "propertyNames")

    def _close(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Forbid further keys where the schema names some and does not decide."""
        more = part.pop("unevaluatedProperties", None)
        if more not in (None, True, {}) and not part.keys() & _APPLIED:
            part.setdefault("additionalProperties", more)
        elif more not in (None, True, {}) and not self._closes:
            self._list_unenforced(path, "unevaluatedProperties")
        named = part.get("properties")
        is_decided = more is not None or "additionalProperties" in part
        if self._closes and isinstance(named, Mapping) and not is_decided:
            unnamed = (name for name in _required(part) if name not in named)
            part["properties"] = {**named, **dict.fromkeys(unnamed, True)}
            part["additionalProperties"] = False

    def _drop_property_counts(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Leave out bounds that the compiler cannot count, because some keys are optional."""
        named = part.get("properties", {})
        if isinstance(named, Mapping) and not named.keys() <= {*_required(part)}:
            for keyword in ("minProperties", "maxProperties"):
                if part.pop(keyword, None) is not None:
                    self._list_unenforced(path, keyword)


def _combines_objects(node: Mapping[str, Any]) -> bool:
    """Return whether the keys of several parts of a schema apply to one object."""
    if "$ref" in node and node.keys() & {*_NAMING, *_BRANCHES}:
        return True
    lists = [node[key] for key in _BRANCHES if isinstance(node.get(key), list)]
    known = node.get("properties", {})
    is_naming = any(
        isinstance(part, Mapping)
        and (
            bool(part.keys() & {*_NAMING, *_APPLIED})
            or any(name not in known for name in _required(part))
        )
        for parts in lists
        for part in parts
    )
    is_several = isinstance(parts := node.get("allOf"), list) and len(parts) > 1
    return is_naming and (is_several or len(lists) > 1 or bool(node.keys() & _NAMING))


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for key, value in schema.items():
            if key in _MAPS and isinstance(value, Mapping):
                for inner in value.values():
                    yield from _nodes(inner)
            elif key in (*_LISTS, "items") and isinstance(value, list):
                for inner in value:
                    yield from _nodes(inner)
            elif key in _SINGLES:
                yield from _nodes(value)


def _required(node: Mapping[str, Any]) -> list[str]:
    required = node.get("required")
    return [x for x in required if isinstance(x, str)] if isinstance(required, list) else []


def _is_void(keyword: str, value: Any, node: Mapping[str, Any]) -> bool:
    if keyword == "uniqueItems":
        return value is not True or node.get("maxItems") in (0, 1)
    if keyword == "if":
        return value is None or not node.keys() & {"then", "else"}
    return value in (None, True, {}, []) or (keyword == "not" and value is False)


def _modernize(part: dict[str, Any]) -> None:
    """Write the tuples of earlier drafts as those of 2020-12; drop the branches of ``if``."""
    part.pop("then", None)
    part.pop("else", None)
    more = part.pop("additionalItems", True)
    if isinstance(part.get("items"), list):
        part["prefixItems"] = part.pop("items")
        part["items"] = more


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that OpenAPI 3.0 calls nullable."""
    kind = part.get("type")
    if isinstance(kind, str) and not part.keys() & {*_APPLIED, "const"}:
        return {**part, "type": [kind, "null"]}
    definitions: dict[str, Any] = {
        key: part.pop(key) for key in ("$defs", "definitions") if key in part
    }
    return {"anyOf": [part, {"type": "null"}], **definitions}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(value: Any) -> Iterator[float]:
    if _is_number(value):
        yield value
    elif isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(inner)


def _looks_around(pattern: str) -> bool:
    return _LOOK_AROUND.search(ESCAPE_OR_CLASS.sub("", pattern)) is not None


def length_range(part: Mapping[str, Any]) -> str:
    """Return the repetition of as many characters as a text may have; empty for any number."""
    shortest, longest = part.get("minLength") or 0, part.get("maxLength")
    if not isinstance(shortest, int) or not isinstance(longest, int | None):
        return ""
    return (
        f"{{{shortest},{'' if longest is None else longest}}}"
        if shortest or longest is not None
        else ""
    )


def _split_look_aheads(pattern: str) -> list[str]:
    """Return patterns that together mean the same: look-aheads at the beginning, and the rest."""
    parts: list[str] = []
    rest = pattern.removeprefix("^")
    if rest == pattern:
        return [pattern]
    while rest.startswith(("(?=", "(?!")):
        end = next((index for index, depth in scan_groups(rest) if depth == 0), None)
        if end is None:
            break
        group, rest = rest[: end + 1], rest[end + 1 :]
        if only := _ONLY_OF_CLASS.fullmatch(group):
            parts.append(f"[^{only[1]}]")
        else:
            parts.append(f"^(?:{group[3:-1]})" if group[2] == "=" else f"^{group}")
    return [*parts, f"^{rest}"]


def scan_groups(pattern: str) -> Iterator[tuple[int, int]]:
    """Yield the index of each character that is no escape or class, and the depth behind it."""
    depth = index = 0
    while index < len(pattern):
        if skipped := ESCAPE_OR_CLASS.match(pattern, index):
            index = skipped.end()
            continue
        depth += {"(": 1, ")": -1}.get(pattern[index], 0)
        yield index, depth
        index += 1
