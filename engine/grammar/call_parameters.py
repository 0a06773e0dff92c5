"""The rules of parameters that stand one behind another, from the schema of a call's arguments."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.grammar.call_formats import ParameterFormat
from engine.grammar.lark_text import Spell, escaped_regex, in_slashes, quoted
from engine.grammar.schemas import (
    ESCAPE_OR_CLASS,
    NAME_PATTERNS,
    Schema,
    as_rule,
    length_range,
    scan_groups,
)
from engine.output.tool_calls.parameters import MAX_SCHEMA_DEPTH, resolve_reference

# A parameter that may be any text is written without quotes, in a terminal that holds it to the
# schema's lengths and patterns and keeps the format's own tags out of it. Any other value is JSON,
# or a listed text. Parameters stand in the order of the schema.

_COMBINING = ("anyOf", "oneOf")
# Schemas of these are no text where they name no type; so the reader takes them, too.
_NO_TEXT = frozenset({"properties", "items", "prefixItems"})
# Stands for the name of a parameter that the model chooses.
_ANY_KEY = "\ue000"
_KEY = "/[A-Za-z_][A-Za-z0-9_]{0,63}/"


_REPLACED = frozenset({*_COMBINING, "$ref", "allOf", "$defs", "definitions"})


@dataclass(frozen=True, slots=True)
class _Shape:
    """One alternative of an object's properties."""

    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    others: Schema = False

    def merged(self, other: "_Shape") -> "_Shape":
        """Return the properties of both; a schema that says something counts."""
        properties = dict(self.properties)
        for key, schema in other.properties.items():
            if properties.get(key, True) is True:
                properties[key] = schema
        others = self.others if other.others is True else other.others
        return _Shape(properties, (*self.required, *other.required), others)


class ParameterRules:
    """Writes the rules of one tool's calls.

    Attributes:
        left_out: The parts of the schema that are not enforced; empty text for the schema itself.
    """

    def __init__(
        self,
        written: ParameterFormat,
        spell: Spell,
        number: int,
    ) -> None:
        self.left_out: list[str] = []
        self._format = written
        self._spell = spell
        self._number = number
        self._count = self._visits = 0
        self._root: Mapping[str, Any] = {}

    def write(self, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules of the calls; the first has this name."""
        self._root = schema
        shapes = self._shapes(schema)
        if not shapes:
            self.left_out.append("")
            shapes = [_Shape(others=True)]
        rules: list[str] = []
        sequences = [self._sequence(shape, rules) for shape in shapes]
        yield f"{name}: {self._format.before} ({' | '.join(sequences)}) {self._format.after}"
        yield from rules

    # -- objects ---------------------------------------------------------------------------

    def _shapes(self, node: Schema, depth: int = 0) -> list[_Shape]:
        """Return the alternatives of an object's properties; none where there are too many."""
        if node is True:
            return [_Shape(others=True)]
        if not isinstance(node, Mapping) or not self._may_visit(depth):
            return []
        properties = node.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = tuple(name for name in _listed(node, "required") if isinstance(name, str))
        others = node.get("additionalProperties", not properties)
        found = [_Shape(properties, required, others)]
        combined = [[part] for part in _listed(node, "allOf")]
        combined += [branches for key in _COMBINING if (branches := _listed(node, key))]
        if isinstance(reference := node.get("$ref"), str):
            combined.append([resolve_reference(reference, self._root)])
        for branches in combined:
            options = [self._shapes(branch, depth + 1) for branch in branches]
            if not all(options):
                return []
            found = [one.merged(other) for one in found for some in options for other in some]
            if len(found) > 16:
                return []
        return found

    def _sequence(self, shape: _Shape, rules: list[str]) -> str:
        """Add the rules of properties in their order; return the name of the first."""
        names: list[tuple[str, bool]] = []
        for key, schema in shape.properties.items():
            if schema is False:
                continue
            if not self._format.names.fullmatch(key):
                self.left_out.append(f"properties.{key}")
                continue
            names.append((self._property(key, schema, rules), key in shape.required))
        first, between = self._new_name("sequence"), self._format.between
        if not names and shape.others is not False:
            one = self._property(_ANY_KEY, shape.others, rules)
            rules.append(f"{first}: ({one} ({between} {one})*)?")
        elif not names:
            rules.append(f'{first}: ""')
        elif not between:
            parts = [name if is_needed else f"{name}?" for name, is_needed in names]
            rules.append(f"{first}: {' '.join(parts)}")
        else:
            self._separated(first, names, rules)
        return first

    def _separated(self, first: str, names: Sequence[tuple[str, bool]], rules: list[str]) -> None:
        """Add the rules of properties with something between any two of them."""
        # By the properties that are left: without one before them, and behind one.
        alone, behind = '""', '""'
        for at, (name, is_needed) in reversed([*enumerate(names)]):
            rest, between = behind, self._format.between
            begun = f"{name} {rest}" if is_needed else f"{name} {rest} | {alone}"
            follows = f"{between} {name}" if is_needed else f"({between} {name})?"
            alone, behind = first if at == 0 else f"{first}_{at}", f"{first}_behind{at}"
            rules.append(f"{alone}: {begun}")
            if at:
                rules.append(f"{behind}: {follows} {rest}")

    # -- values ----------------------------------------------------------------------------

    def _property(self, key: str, schema: Schema, rules: list[str]) -> str:
        """Add the rules of a parameter; return the name of the first."""
        written, name = self._format, self._new_name("parameter")
        heads = {is_text: self._head(key, is_text) for is_text in (True, False)}
        quote, end = self._spell(written.quote), self._spell(written.end)
        if written.has_json_text:
            rules.append(f"{name}: {heads[False]} {self._json(schema)}")
            return name
        if texts := [*self._texts(schema)]:
            terminal, behind = self._terminal(key, texts)
            rules += [
                f"{name}: {heads[True]} {quote} {name.upper()} {behind}",
                f"{name.upper()}: {terminal}",
            ]
            return name
        listed, others = self._listed_texts(schema)
        choices = [f"{heads[True]} {quote} {quoted(text)} {quote} {end}" for text in listed]
        if others is not False:
            choices.append(f"{heads[False]} {self._json(others)} {end}")
        rules.append(f"{name}: {' | '.join(choices)}")
        return name

    def _head(self, key: str, is_text: bool) -> str:
        head = self._format.head(key, is_text)
        return head.replace(quoted(_ANY_KEY)[1:-1], f'" {_KEY} "')

    def _json(self, schema: Schema) -> str:
        """Return the grammar of a value in JSON, with all that its references lead to."""
        if not isinstance(schema, Mapping):
            return as_rule({} if schema is True else {"enum": []})
        if '"$ref"' not in json.dumps(schema):
            return as_rule(schema)
        return as_rule({**_moved(schema), "$defs": {"root": _moved(self._root)}})

    def _alternatives(self, node: Schema, depth: int = 0) -> Iterator[Mapping[str, Any]]:
        """Yield schemas of which a value fulfils one, without references or choices."""
        if node is True:
            yield {}
        elif isinstance(node, Mapping) and self._may_visit(depth):
            inner = [branch for key in _COMBINING for branch in _listed(node, key)]
            if isinstance(reference := node.get("$ref"), str):
                inner = [resolve_reference(reference, self._root)]
            parts = _listed(node, "allOf")
            if len(parts) == 1 and not inner:
                inner = parts
            if not inner:
                yield node
                return
            own = {key: value for key, value in node.items() if key not in _REPLACED}
            for branch in inner:
                for part in self._alternatives(branch, depth + 1):
                    yield {**own, **part}

    def _texts(self, node: Schema) -> Iterator[Mapping[str, Any]]:
        """Yield the alternatives of a value that may be other texts than listed ones."""
        for part in self._alternatives(node):
            kinds = _kinds(part)
            is_text = "string" in kinds or not (kinds or part.keys() & _NO_TEXT)
            if is_text and not part.keys() & {"enum", "const"}:
                yield part

    def _listed_texts(self, node: Schema) -> tuple[list[str], Schema]:
        """Return the texts that a value may be, and the schema of its other values."""
        texts: dict[str, None] = {}
        others: list[Schema] = []
        for part in self._alternatives(node):
            values = [part["const"]] if "const" in part else part.get("enum")
            if not isinstance(values, list):
                others.append(part)
                continue
            kinds = _kinds(part)
            for value in values:
                if not isinstance(value, str):
                    others.append({**part, "enum": [value]})
                elif not kinds or "string" in kinds:
                    texts[value] = None
        if not texts:
            return [], node
        return [*texts], {"anyOf": others} if others else False

    def _terminal(self, key: str, texts: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """Return the terminal of a text, and what follows it.

        Where the text's end is plain text, the terminal contains it: a terminal takes all that it
        can, so that nothing else could say where the text ends.
        """
        end = self._format.quote + self._format.end
        tag = end.lstrip("\n")
        is_special = self._spell(tag).startswith("<[")
        closing = "" if is_special else escaped_regex(end)
        bodies: list[str] = []
        for part in texts:
            regexes, unknown = _text_regexes(part)
            self.left_out += (f"properties.{key}.{keyword}" for keyword in unknown)
            bodies.append(" & ".join(in_slashes(f"(?:{regex}){closing}") for regex in regexes))
        terminal = " | ".join(f"({body})" for body in bodies)
        forbidden = [text for text in self._format.forbidden if is_special or text != tag]
        if forbidden:
            within = "|".join(map(escaped_regex, forbidden))
            terminal = f"({terminal}) & ~/(?s:.*)(?:{within})(?s:.*)/"
        if not is_special:
            terminal = f"({terminal}) & ~/(?s:.*){escaped_regex(tag)}(?s:.+)/"
        return terminal, self._spell(end) if is_special else ""

    def _may_visit(self, depth: int) -> bool:
        """Count a part that is looked at; return whether it is not too deep, nor one too many."""
        self._visits += 1
        return depth <= MAX_SCHEMA_DEPTH and self._visits <= 20_000

    def _new_name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._number}_{self._count}"


def _listed(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _kinds(part: Mapping[str, Any]) -> list[Any]:
    kinds = part.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def _moved(node: Any) -> Any:
    """Return a part of a schema whose references lead to the root's new place."""
    if isinstance(node, list):
        return [_moved(inner) for inner in node]
    if not isinstance(node, Mapping):
        return node
    moved = {key: _moved(inner) for key, inner in node.items()}
    if isinstance(reference := node.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = f"#/$defs/root{reference[1:]}"
    return moved


def _text_regexes(part: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return expressions that a text matches as a whole, and the keywords that have none."""
    regexes: list[str] = []
    unknown: list[str] = []
    if length := length_range(part):
        regexes.append(f"(?s:.{length})")
    for holder in (part, *_listed(part, "allOf")):
        pattern = holder.get("pattern") if isinstance(holder, Mapping) else None
        whole = _as_whole(pattern) if isinstance(pattern, str) else ""
        if whole:
            regexes.append(whole)
        elif whole is None:
            unknown.append("pattern")
    if "format" in part:
        whole = _as_whole(NAME_PATTERNS.get(str(part["format"]), "(^"))
        regexes += [whole] if whole else []
        unknown += [] if whole or "pattern" in part else ["format"]
    return regexes or ["(?s:.*)"], unknown


def _as_whole(pattern: str) -> str | None:
    """Return the expression of the texts in which a pattern is found; None if it has no such."""
    parts: list[str] = []
    for branch in _branches(pattern):
        body = branch.removeprefix("^")
        before = "" if body != branch else "(?s:.*)"
        is_bound = body.endswith("$") and not body.endswith("\\$")
        body, after = (body[:-1], "") if is_bound else (body, "(?s:.*)")
        if re.search(r"[\^$]", ESCAPE_OR_CLASS.sub("", body)):
            return None
        parts.append(f"{before}(?:{body}){after}")
    return "|".join(parts)


def _branches(pattern: str) -> Iterator[str]:
    """Yield the alternatives that a pattern consists of."""
    start = 0
    for index, depth in scan_groups(pattern):
        if pattern[index] == "|" and depth == 0:
            yield pattern[start:index]
            start = index + 1
    yield pattern[start:]
