"""The rules of parameters that stand one behind another, from the schema of a call's arguments."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.grammar.forced_calls import KEY_MARK, ForcedCall
from engine.grammar.lark_text import Spell, escaped_regex, in_slashes, quoted
from engine.grammar.schemas import (
    ESCAPE_OR_CLASS,
    NAME_PATTERNS,
    Schema,
    as_rule,
    length_range,
    scan_groups,
)
from engine.output.tool_calls.formats import CallFormat, PythonCalls, TaggedCalls
from engine.output.tool_calls.schema_alternatives import (
    Alternative,
    allowed_types,
    alternatives,
    declared,
    listed,
    values_of,
)

# A parameter that may be any text is written without quotes, in a terminal that holds it to the
# schema's lengths and patterns and keeps the format's own tags out of it. Any other value is JSON,
# or a listed text. Parameters stand in the order of the schema.

# The name of a parameter that the model chooses.
_ANY_KEY = "/[A-Za-z_][A-Za-z0-9_]{0,63}/"
_KEY = quoted(KEY_MARK)[1:-1]


class ParameterRules:
    """Writes the rules of one tool's calls.

    Attributes:
        left_out: The parts of the schema that are not enforced; empty text for the schema itself.
    """

    def __init__(
        self,
        call_format: CallFormat,
        call: ForcedCall,
        spell: Spell,
        number: int,
    ) -> None:
        self.left_out: list[str] = []
        self._call_format = call_format
        self._call = call
        self._between = quoted(call_format.between) if call_format.between else ""
        self._end = call_format.value_end
        self._forbidden = tuple(filter(None, (call_format.quote, call_format.value_end)))
        if isinstance(call_format, TaggedCalls):
            self._end = (
                f"\n{call_format.value_end}" if call_format.has_line_ends else call_format.value_end
            )
            self._forbidden += tuple(filter(None, (call_format.call_end, call_format.parameter[0])))
        self._spell = spell
        self._number = number
        self._count = 0
        self._root: Mapping[str, Any] = {}

    def write(self, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules of the calls; the first has this name."""
        self._root = schema
        shapes = alternatives(schema, schema)
        if not shapes:
            self.left_out.append("")
        rules: list[str] = []
        sequences = [self._sequence(shape, rules) for shape in shapes or [({},)]]
        yield f"{name}: {self._call.before} ({' | '.join(sequences)}) {self._call.after}"
        yield from rules

    def _sequence(self, alternative: Alternative, rules: list[str]) -> str:
        """Add the rules of properties in their order; return the name of the first."""
        properties, others = _properties(alternative)
        required = [key for part in alternative for key in listed(part, "required")]
        names: list[tuple[str, bool]] = []
        for key, schema in properties.items():
            if schema is False:
                continue
            if not self._call_format.parameter_names.fullmatch(key):
                self.left_out.append(f"properties.{key}")
                continue
            names.append((self._property(key, schema, rules), key in required))
        first, between = self._new_name("sequence"), self._between
        if not names and others is not False:
            one = self._property(None, others, rules)
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
            rest, between = behind, self._between
            begun = f"{name} {rest}" if is_needed else f"{name} {rest} | {alone}"
            follows = f"{between} {name}" if is_needed else f"({between} {name})?"
            alone, behind = first if at == 0 else f"{first}_{at}", f"{first}_behind{at}"
            rules.append(f"{alone}: {begun}")
            if at:
                rules.append(f"{behind}: {follows} {rest}")

    def _property(self, key: str | None, schema: Schema, rules: list[str]) -> str:
        """Add the rules of a parameter; return the name of the first."""
        call_format, call, name = self._call_format, self._call, self._new_name("parameter")
        symbol = quoted(key)[1:-1] if key else f'" {_ANY_KEY} "'
        text_head = call.text_head.replace(_KEY, symbol)
        json_head = call.json_head.replace(_KEY, symbol)
        quote, end = self._spell(call_format.quote), self._spell(self._end)
        if isinstance(call_format, PythonCalls):
            rules.append(f"{name}: {json_head} {self._json(schema)}")
            return name
        options = [(one, *allowed_types(one)) for one in alternatives(schema, self._root)]
        texts = [one for one, types, only in options if "string" in types and only is None]
        if texts:
            terminal, behind = self._terminal(key, texts)
            rules += [
                f"{name}: {text_head} {quote} {name.upper()} {behind}",
                f"{name.upper()}: {terminal}",
            ]
            return name
        fixed = dict.fromkeys(
            text for _, types, only in options if "string" in types for text in only or ()
        )
        others = [_other_values(one) for one, types, _ in options if types - {"string"}]
        choices = [f"{text_head} {quote} {quoted(text)} {quote} {end}" for text in fixed]
        if others or not fixed:
            rest = {"anyOf": others} if fixed else schema
            choices.append(f"{json_head} {self._json(rest)} {end}")
        rules.append(f"{name}: {' | '.join(choices)}")
        return name

    def _json(self, schema: Schema) -> str:
        """Return the grammar of a value in JSON, with all that its references lead to."""
        if not isinstance(schema, Mapping):
            return as_rule({} if schema is True else {"enum": []})
        if '"$ref"' not in json.dumps(schema):
            return as_rule(schema)
        return as_rule({**_moved(schema), "$defs": {"root": _moved(self._root)}})

    def _terminal(self, key: str | None, texts: Sequence[Alternative]) -> tuple[str, str]:
        """Return the terminal of a text, and what follows it.

        Where the text's end is plain text, the terminal contains it: a terminal takes all that it
        can, so that nothing else could say where the text ends.
        """
        end = self._call_format.quote + self._end
        tag = end.lstrip("\n")
        is_special = self._spell(tag).startswith("<[")
        closing = "" if is_special else escaped_regex(end)
        bodies: list[str] = []
        for alternative in texts:
            regexes, unknown = _text_regexes(alternative)
            self.left_out += (f"properties.{key}.{keyword}" for keyword in unknown)
            bodies.append(" & ".join(in_slashes(f"(?:{regex}){closing}") for regex in regexes))
        terminal = " | ".join(f"({body})" for body in bodies)
        forbidden = [text for text in self._forbidden if is_special or text != tag]
        if forbidden:
            within = "|".join(map(escaped_regex, forbidden))
            terminal = f"({terminal}) & ~/(?s:.*)(?:{within})(?s:.*)/"
        if not is_special:
            terminal = f"({terminal}) & ~/(?s:.*){escaped_regex(tag)}(?s:.+)/"
        return terminal, self._spell(end) if is_special else ""

    def _new_name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._number}_{self._count}"


def _properties(alternative: Alternative) -> tuple[Mapping[str, Schema], Schema]:
    """Return an alternative's properties, and the schema of others.

    Of two schemas of one property, the first that is not ``True`` counts.
    """
    properties: dict[str, Schema] = {}
    others: Schema = True
    for part in alternative:
        for key, schema in declared(part).items():
            if properties.get(key, True) is True:
                properties[key] = schema
        if others is True:
            others = part.get("additionalProperties", not declared(part))
    return properties, others


def _other_values(alternative: Alternative) -> Schema:
    parts: list[Schema] = []
    for part in alternative:
        if (values := values_of(part)) is not None:
            rest = {key: value for key, value in part.items() if key != "const"}
            part = {**rest, "enum": [value for value in values if not isinstance(value, str)]}
        parts.append(part)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


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


def _text_regexes(alternative: Alternative) -> tuple[list[str], list[str]]:
    """Return expressions that a text matches as a whole, and the keywords that have none."""
    regexes: list[str] = []
    unknown: list[str] = []
    for part in alternative:
        if length := length_range(part):
            regexes.append(f"(?s:.{length})")
        if isinstance(pattern := part.get("pattern"), str):
            whole = _as_whole(pattern)
            regexes += [whole] if whole else []
            unknown += ["pattern"] if whole is None else []
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
    start = 0
    for index, depth in scan_groups(pattern):
        if pattern[index] == "|" and depth == 0:
            yield pattern[start:index]
            start = index + 1
    yield pattern[start:]
