"""Rewrites a JSON schema so that the compiler of grammars enforces as much of it as it can."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Any, NamedTuple

from engine.grammar.schema_bounds import MIN_NUMBER, pointed_at

# The compiler (llguidance) refuses a schema for one keyword that it does not know. Annotations,
# unknown formats among them (https://json-schema.org/draft/2020-12/json-schema-validation#section-7),
# are left out without a word; a keyword that forbids something is written in others that the
# compiler knows, or else left out and listed.

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
# Formats as patterns: dates and times that exist (the compiler's allow the second 60 and the 29th
# of each February, which no library of clients takes), durations without endless digits, and simple
# regular expressions.
_PATTERNS = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "duration": f"^P(?:[0-9]{{1,6}}W|{_DAYS}(?:T{_HOURS})?|T{_HOURS})$",
    "regex": rf"^\^?(?:{_ATOM}|\((?:{_ATOM})+(?:\|(?:{_ATOM})+)*\)[*+?]?)*\$?$",
    "time": f"^{_TIME}$",
}
# The compiler knows formats of values only, not of the names of properties.
_NAMES_OF_FORMAT = {
    **_PATTERNS,
    "ipv4": r"^(?:25[0-5]|(?:2[0-4]|1?[0-9])?[0-9])(?:\.(?:25[0-5]|(?:2[0-4]|1?[0-9])?[0-9])){3}$",
    "uuid": "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
}
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties")
# Keywords that the compiler refuses and nothing else expresses, and whether a value says nothing.
_UNENFORCED: dict[str, Callable[[Any], bool]] = {
    "contains": lambda value: value is True or value == {},
    "dependencies": lambda value: not value,
    "dependentRequired": lambda value: not value,
    "dependentSchemas": lambda value: not value,
    "if": lambda value: False,
    "not": lambda value: value is False,
    "unevaluatedItems": lambda value: value is True or value == {},
    "uniqueItems": lambda value: value is not True,
}
_SAYING_NOTHING = frozenset(
    {"$schema", "$dynamicAnchor", "$recursiveAnchor", "minContains", "maxContains", "then", "else"}
)
_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
# Bounds beyond these are tightened to them: the compiler computes with 64 bits, and makes one
# regular expression of the digits of both bounds.
_MAX_WHOLE, _MAX_REAL = -MIN_NUMBER, 10**18
# Most arrays that stand for those of different items: a set of up to five values has 326.
_MAX_ARRAYS = 400
_MAX_MEMBERS = 5
_MAX_REFERENCES = 100
# Most parts that are looked at to find few values and branches that exclude each other: references
# can lead to the same parts without end.
_MAX_VISITS = 5_000
_MAX_VALUES_DEPTH = 8
_LOOKING = re.compile(r"\(\?<?[=!]|\\[bB1-9]|\\k<")
# A look-ahead that forbids a text of some characters only, as in pydantic's pattern of a Decimal.
_ONLY_OF_CLASS = re.compile(r"\(\?!\^?\[([^\]\\^][^\]\\]*)\]\*\$\)")
_ESCAPED_OR_CLASS = re.compile(r"\\[^bB1-9k]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class Enforceable(NamedTuple):
    """A schema that the compiler takes.

    Attributes:
        schema: The schema.
        left_out: The keywords that could not be enforced, each with its place, such as
            ``properties.tags.uniqueItems``.
    """

    schema: dict[str, Any]
    left_out: tuple[str, ...]


def enforceable(schema: Mapping[str, Any], *, closes: bool) -> Enforceable:
    """Return what can be enforced of a schema.

    Args:
        schema: The schema.
        closes: Whether its objects will be closed against further keys afterwards.
    """
    rewriter = _Rewriter(schema, closes=closes)
    whole = rewriter.schema(schema, ())
    nothing: dict[str, Any] = {"enum": []}
    return Enforceable(whole if whole is not False else nothing, tuple(rewriter.left_out))


class _Rewriter:
    def __init__(self, root: Mapping[str, Any], *, closes: bool) -> None:
        self.left_out: list[str] = []
        self._root = root
        self._closes = closes
        self._anchors = dict(_anchors(root, "#"))
        self._visits = 0

    def schema(self, node: Schema, path: tuple[str, ...]) -> Schema:
        """Return a part of the schema, rewritten."""
        if not isinstance(node, Mapping):
            return node
        part = {key: value for key, value in node.items() if key not in _SAYING_NOTHING}
        self._follow_anchors(part)
        self._split_pattern(part, path)
        self._keep_format(part)
        for key in _COUNTS:
            if isinstance(part.get(key), float) and part[key].is_integer():
                part[key] = int(part[key])
        _tighten_numbers(part)
        _modernize_items(part)
        self._name_properties(part, path)
        self._close(part, path)
        self._list_different_items(part)
        if part.get("not") in (True, {}):
            return False  # how zod writes a value that must not be there
        self._drop_unenforced(part, node, path)
        self._count_properties(part, path)
        self._loosen_choice(part, path)
        for key in _MAPS:
            if isinstance(inner := part.get(key), Mapping):
                part[key] = {
                    name: self.schema(value, (*path, key, name)) for name, value in inner.items()
                }
        for key in _LISTS:
            if isinstance(inner := part.get(key), list):
                part[key] = [
                    self.schema(value, (*path, key, str(at))) for at, value in enumerate(inner)
                ]
        for key in _SINGLES:
            if isinstance(inner := part.get(key), Mapping):
                part[key] = self.schema(inner, (*path, key))
        return _or_null(part) if part.pop("nullable", None) is True else part

    def _leave_out(self, path: tuple[str, ...], keyword: str) -> None:
        self.left_out.append(".".join((*path, keyword)))

    def _may_visit(self) -> bool:
        """Count a part that is looked at; return whether there were not too many."""
        self._visits += 1
        return self._visits <= _MAX_VISITS

    # -- references ------------------------------------------------------------------------

    def _follow_anchors(self, part: dict[str, Any]) -> None:
        """Write a reference to a name as one to a place."""
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = part.get(key)
            if isinstance(reference, str):
                del part[key]
                part["$ref"] = self._anchors.get(reference, reference)

    def _resolved(self, node: Schema) -> Schema:
        """Return what a part that is only a reference leads to."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(node, Mapping):
                break
            only = node.get("allOf")
            if isinstance(only, list) and len(only) == 1 and not node.keys() & {"$ref", "enum"}:
                node = only[0]
            elif isinstance(reference := node.get("$ref"), str):
                node = pointed_at(self._root, self._anchors.get(reference, reference))
            else:
                break
        return node

    def _values(self, node: Schema, depth: int = 0) -> list[Any] | None:
        """Return all values that a part allows, if they are few; otherwise None."""
        node = self._resolved(node)
        if not isinstance(node, Mapping) or depth > _MAX_VALUES_DEPTH or not self._may_visit():
            return None
        if "const" in node:
            return [node["const"]]
        if isinstance(node.get("enum"), list):
            return list(node["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(branches := node.get(key), list):
                found: list[Any] = []
                for branch in branches:
                    if (some := self._values(branch, depth + 1)) is None:
                        return None
                    found += some
                return found
        few: dict[str, list[Any]] = {"boolean": [False, True], "null": [None]}
        return few.get(str(node.get("type")))

    # -- strings ---------------------------------------------------------------------------

    def _keep_format(self, part: dict[str, Any]) -> None:
        """Write a format as a pattern where the compiler's is none, or is too wide."""
        name = part.get("format")
        if not isinstance(name, str) or name in _FORMATS:
            return
        del part["format"]
        if name in _PATTERNS:
            others = part.get("allOf")
            others = others if isinstance(others, list) else []
            if "pattern" in part:
                part["allOf"] = [*others, {"pattern": _PATTERNS[name]}]
            else:
                part["pattern"] = _PATTERNS[name]

    def _split_pattern(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Write look-aheads at the beginning of a pattern as patterns of their own."""
        pattern = part.get("pattern")
        if not isinstance(pattern, str) or not _looks_around(pattern):
            return
        *ahead, rest = _split_look_aheads(pattern)
        kept = [text for text in (*ahead, rest) if not _looks_around(text)]
        # A format says what zod's pattern beside it says.
        if len(kept) <= len(ahead) and _format(part) not in {*_FORMATS, *_PATTERNS}:
            self._leave_out(path, "pattern")
        del part["pattern"]
        if kept:
            part["pattern"] = kept[-1]
        if kept[:-1]:
            others = part.get("allOf")
            others = others if isinstance(others, list) else []
            part["allOf"] = [*others, *({"pattern": text} for text in kept[:-1])]

    # -- objects ---------------------------------------------------------------------------

    def _name_properties(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Write what ``propertyNames`` says as the properties that there may be."""
        names = self._resolved(part.pop("propertyNames", True))
        if names is True:
            return
        value = part.get("additionalProperties", True)
        known = part.get("properties")
        known = known if isinstance(known, Mapping) else {}
        is_sole = "patternProperties" not in part
        listed = [] if names is False else self._values(names)
        if listed is not None:
            allowed = [name for name in listed if isinstance(name, str)]
            if is_sole:
                part["properties"] = {
                    name: known.get(name, value)
                    for name in allowed
                    if name in known or value is not False
                }
                part["additionalProperties"] = False
            else:
                self._leave_out(path, "propertyNames")
            return
        patterns = list(_name_patterns(names)) if isinstance(names, Mapping) else []
        usable = [text for text in patterns if text is not None and not _looks_around(text)]
        if not patterns:
            return
        # The names would be held to the values of further ones, too.
        is_sole = is_sole and (not known or value is True or value == {})
        if len(usable) != len(patterns) or len(usable) > 1 or not is_sole:
            self._leave_out(path, "propertyNames")
        if usable and is_sole:
            part["patternProperties"] = {usable[0]: value}
            part["additionalProperties"] = False
            if known:
                part["properties"] = {
                    name: inner for name, inner in known.items() if _matches(usable[0], name)
                }

    def _close(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Write ``unevaluatedProperties`` as ``additionalProperties`` where it means the same."""
        value = part.pop("unevaluatedProperties", True)
        if value is True or value == {}:
            return
        if not part.keys() & _COMBINED:
            part.setdefault("additionalProperties", value)
        elif not self._closes:
            self._leave_out(path, "unevaluatedProperties")

    def _count_properties(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """Leave out bounds that the compiler cannot count, because some keys are optional."""
        known, required = part.get("properties"), part.get("required")
        known = known if isinstance(known, Mapping) else {}
        required = required if isinstance(required, list) else []
        if all(name in required for name in known):
            return
        least, most = _count(part, "minProperties"), _count(part, "maxProperties")
        part.pop("minProperties", None)
        part.pop("maxProperties", None)
        if (least or 0) > len(required):
            self._leave_out(path, "minProperties")
        is_closed = part.get("additionalProperties", not self._closes) is False
        if most is not None and not (is_closed and most >= len(known) + len(required)):
            self._leave_out(path, "maxProperties")

    # -- lists and choices -----------------------------------------------------------------

    def _list_different_items(self, part: dict[str, Any]) -> None:
        """List the arrays of different items, where the items are of few values."""
        if part.get("uniqueItems") is not True:
            return
        most = _count(part, "maxItems")
        if most is not None and most <= 1:
            del part["uniqueItems"]
            return
        members = self._values(part.get("items")) if "prefixItems" not in part else None
        if members is None or len(members) > _MAX_MEMBERS:
            return
        largest = len(members) if most is None else min(most, len(members))
        sizes = range(_count(part, "minItems") or 0, largest + 1)
        arrays = [list(some) for size in sizes for some in permutations(members, size)]
        if 0 < len(arrays) <= _MAX_ARRAYS:
            for key in ("uniqueItems", "items", "minItems", "maxItems", "type"):
                part.pop(key, None)
            part["enum"] = arrays

    def _drop_unenforced(
        self, part: dict[str, Any], node: Mapping[str, Any], path: tuple[str, ...]
    ) -> None:
        for key, says_nothing in _UNENFORCED.items():
            if key not in part:
                continue
            value = part.pop(key)
            is_idle = key == "if" and not node.keys() & {"then", "else"}
            if not says_nothing(value) and not is_idle:
                self._leave_out(path, key)

    def _loosen_choice(self, part: dict[str, Any], path: tuple[str, ...]) -> None:
        """List a ``oneOf`` whose branches may share values: it is enforced as ``anyOf``."""
        branches = part.get("oneOf")
        if not isinstance(branches, list):
            return
        if not all(
            self._exclude(one, other)
            for at, one in enumerate(branches)
            for other in branches[at + 1 :]
        ):
            self._leave_out(path, "oneOf")

    def _exclude(self, one: Schema, other: Schema, depth: int = 0) -> bool:
        """Return whether two parts certainly share no value."""
        one, other = self._resolved(one), self._resolved(other)
        if one is False or other is False:
            return True
        if not isinstance(one, Mapping) or not isinstance(other, Mapping) or depth > 4:
            return False
        if not self._may_visit():
            return False
        values, others = self._values(one), self._values(other)
        if values is not None and others is not None:
            return not any(_is_same(value, mate) for value in values for mate in others)
        kinds, mates = _kinds(one), _kinds(other)
        if kinds and mates and not kinds & mates:
            return True
        if not (kinds == mates == {"object"}):
            return False
        return any(
            self._exclude(inner, _property(other, name), depth + 1)
            for name, inner in _properties(one).items()
            if name in _properties(other) and name in (*_required(one), *_required(other))
        ) or any(
            self._is_closed(mate) and name not in _properties(mate) and name not in _required(mate)
            for part, mate in ((one, other), (other, one))
            for name in _required(part)
        )

    def _is_closed(self, part: Mapping[str, Any]) -> bool:
        """Return whether an object has only the keys that it names."""
        if part.keys() & (_COMBINED | {"patternProperties"}):
            return False
        more = part.get("additionalProperties", part.get("unevaluatedProperties"))
        return more is False or (more is None and self._closes and "properties" in part)


def _anchors(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a schema's parts, as references, with their places."""
    if isinstance(node, Mapping):
        for key in ("$dynamicAnchor", "$anchor"):
            if isinstance(name := node.get(key), str):
                yield f"#{name}", place
        inner: Iterator[tuple[Any, Any]] = iter(node.items())
    elif isinstance(node, list):
        inner = enumerate(node)
    else:
        return
    for step, value in inner:
        yield from _anchors(value, f"{place}/{str(step).replace('~', '~0').replace('/', '~1')}")


def _tighten_numbers(part: dict[str, Any]) -> None:
    """Write the flags of draft 4 as bounds, and bring bounds into the compiler's range."""
    for bound, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(part.get(strict), bool) and part.pop(strict) and bound in part:
            part[strict] = part.pop(bound)
    limit = _MAX_WHOLE if part.get("type") == "integer" else _MAX_REAL
    for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        value, is_lower = part.get(key), key.endswith("inimum")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            part[key] = max(value, -limit) if is_lower else min(value, limit)


def _modernize_items(part: dict[str, Any]) -> None:
    """Write the tuples of earlier drafts as those of 2020-12."""
    more = part.pop("additionalItems", True)
    if isinstance(part.get("items"), list):
        part["prefixItems"] = part.pop("items")
        part["items"] = more


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that OpenAPI 3.0 calls nullable."""
    kind = part.get("type")
    if isinstance(kind, str) and not part.keys() & (_COMBINED | {"const"}):
        return {**part, "type": [kind, "null"]}
    definitions: dict[str, Any] = {
        key: part.pop(key) for key in ("$defs", "definitions") if key in part
    }
    return {"anyOf": [part, {"type": "null"}], **definitions}


def _looks_around(pattern: str) -> bool:
    """Return whether a pattern needs more than a regular language, or a word's edge."""
    return _LOOKING.search(_ESCAPED_OR_CLASS.sub("", pattern)) is not None


def _split_look_aheads(pattern: str) -> list[str]:
    """Return patterns that together mean the same: look-aheads at the beginning, and the rest."""
    parts: list[str] = []
    rest = pattern.removeprefix("^")
    if rest == pattern:
        return [pattern]
    while rest.startswith(("(?=", "(?!")):
        end = _end_of_group(rest)
        if end is None:
            break
        group, rest = rest[: end + 1], rest[end + 1 :]
        if only := _ONLY_OF_CLASS.fullmatch(group):
            parts.append(f"[^{only[1]}]")
        else:
            parts.append(f"^(?:{group[3:-1]})" if group[2] == "=" else f"^{group}")
    return [*parts, f"^{rest}"]


def _end_of_group(pattern: str) -> int | None:
    """Return the place of the bracket that closes the group at a pattern's beginning."""
    depth = place = 0
    while place < len(pattern):
        if skipped := _ESCAPED_OR_CLASS.match(pattern, place):
            place = skipped.end()
            continue
        depth += {"(": 1, ")": -1}.get(pattern[place], 0)
        if depth == 0:
            return place
        place += 1
    return None


def _name_patterns(names: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the patterns that names of properties must match; None for what is no pattern."""
    if isinstance(pattern := names.get("pattern"), str):
        yield pattern
    elif (form := _format(names)) in {*_FORMATS, *_PATTERNS}:
        yield _NAMES_OF_FORMAT.get(form)
    if length := _length(names):
        yield rf"^[\s\S]{length}$"
    if names.keys() & (_COMBINED | {"not", "if"}):
        yield None


def text_regexes(part: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return regular expressions that a text matches as a whole, and keywords that have none.

    Args:
        part: A schema of a string, as ``enforceable`` returns it.
    """
    regexes: list[str] = []
    unknown: list[str] = []
    if length := _length(part):
        regexes.append(f"(?s:.{length})")
    others = part.get("allOf")
    for holder in (part, *(others if isinstance(others, list) else ())):
        pattern = holder.get("pattern") if isinstance(holder, Mapping) else None
        whole = _as_whole(pattern) if isinstance(pattern, str) else ""
        if whole:
            regexes.append(whole)
        elif whole is None:
            unknown.append("pattern")
    if (form := _format(part)) in _FORMATS and "pattern" not in part:
        whole = _as_whole(_NAMES_OF_FORMAT.get(form, "(^"))
        regexes += [whole] if whole else []
        unknown += [] if whole else ["format"]
    return regexes or ["(?s:.*)"], unknown


def _as_whole(pattern: str) -> str | None:
    """Return the expression of the texts in which a pattern is found; None if it has no such."""
    parts: list[str] = []
    for branch in _branches(pattern):
        body = branch.removeprefix("^")
        before = "" if body != branch else "(?s:.*)"
        is_bound = body.endswith("$") and not body.endswith("\\$")
        body, after = (body[:-1], "") if is_bound else (body, "(?s:.*)")
        if re.search(r"[\^$]", _ESCAPED_OR_CLASS.sub("", body)):
            return None
        parts.append(f"{before}(?:{body}){after}")
    return "|".join(parts)


def _branches(pattern: str) -> Iterator[str]:
    """Yield the alternatives that a pattern consists of."""
    depth = start = place = 0
    while place < len(pattern):
        if skipped := _ESCAPED_OR_CLASS.match(pattern, place):
            place = skipped.end()
            continue
        depth += {"(": 1, ")": -1}.get(pattern[place], 0)
        if pattern[place] == "|" and depth == 0:
            yield pattern[start:place]
            start = place + 1
        place += 1
    yield pattern[start:]


def _count(part: Mapping[str, Any], key: str) -> int | None:
    """Return the number of a keyword; None where it is absent or no number."""
    value = part.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _format(part: Mapping[str, Any]) -> str:
    value = part.get("format")
    return value if isinstance(value, str) else ""


def _length(part: Mapping[str, Any]) -> str:
    """Return the repetition of as many characters as a text may have; empty for any number."""
    least, most = _count(part, "minLength") or 0, _count(part, "maxLength")
    return f"{{{least},{'' if most is None else most}}}" if least or most is not None else ""


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def _kinds(part: Mapping[str, Any]) -> frozenset[str]:
    kind = part.get("type")
    kinds = frozenset(kind if isinstance(kind, list) else [kind] if isinstance(kind, str) else ())
    return kinds | {"number", "integer"} if "number" in kinds else kinds


def _properties(part: Mapping[str, Any]) -> Mapping[str, Any]:
    value = part.get("properties")
    return value if isinstance(value, Mapping) else {}


def _property(part: Mapping[str, Any], name: str) -> Schema:
    return _properties(part)[name]


def _required(part: Mapping[str, Any]) -> list[str]:
    value = part.get("required")
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; true is not 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)
