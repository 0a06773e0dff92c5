"""The values of parameters that are written without types: a tool's schema is the guide.

Where text is allowed, text stays text; a text that fits no other declared type stays text as well.
Pure; any thread.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.output.tool_calls.json_text import escaped, is_number, repaired_json
from engine.output.tool_calls.schema_alternatives import (
    TYPES,
    allowed_types,
    alternatives,
    declared,
)
from engine.values.request import Tool

_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_Allowed = tuple[frozenset[str], tuple[str, ...] | None]
"""Types that a schema allows, and the only texts, where it lists values."""
_ANYTHING: _Allowed = (TYPES, None)
_CONSTANTS = {"true": "true", "false": "false", "True": "true", "False": "false"}


@dataclass(frozen=True, slots=True)
class ParameterType:
    """What the text of one parameter can be."""

    alternatives: tuple[_Allowed, ...]
    is_declared: bool = True

    @property
    def is_text(self) -> bool:
        """Whether every text is a string, so that it can be passed on while it arrives."""
        if not self.is_declared:
            return False
        return any("string" in types and values is None for types, values in self.alternatives)

    def json_of(self, text: str) -> str:
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
    for opening, name in (("{", "object"), ("[", "array")):
        if text.startswith(opening) and name in types:
            return repaired_json(text)
    return None


class ToolTypes:
    """The types of the parameters of one answer's tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.names = frozenset(tool.name for tool in tools)
        self._schemas = {tool.name: tool.parameters for tool in tools}

    def _parts_of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the parts of a tool's schema that may declare parameters."""
        root = self._schemas.get(name)
        return [part for alternative in alternatives(root, root) for part in alternative]

    def parameters_of(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for part in self._parts_of(name) for key in declared(part)))

    def type_of(self, name: str, parameter: str) -> ParameterType:
        root, parts = self._schemas.get(name), self._parts_of(name)
        schemas = [declared(part)[parameter] for part in parts if parameter in declared(part)]
        if not schemas:
            schemas = [more for part in parts if (more := part.get("additionalProperties"))]
        # Where nothing declares it, or nothing can fulfil its schema, the text decides.
        found = [
            allowed
            for schema in schemas
            for alternative in alternatives(schema, root)
            if (allowed := allowed_types(alternative))[0]
        ] or [_ANYTHING]
        return ParameterType(tuple(dict.fromkeys(found)), is_declared=_ANYTHING not in found)
