"""Writes the grammar of a constrained answer: JSON, another form of text, or a call of a tool.

Pure text in llguidance's Lark dialect: ``<[5]>`` is the token 5, ``%json`` a JSON schema. Knows no
tokenizer and no model. Any thread.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine.constraining.closing import closed
from engine.constraining.schema_bounds import MOST_CHARACTERS
from engine.constraining.text_forms import document_rules, with_own_grammar
from engine.errors import InvalidRequest
from engine.output.families import Family, Marks, OptionalMarks, OutputFrame
from engine.values.chat import Tool
from engine.values.request import GenerationRequest, OutputConstraint, TextForm

# One blank, or a new line and its indentation. JSON allows any amount of white space, and an unsure
# model would write it until it reaches the limit.
_SPACE = r"[ ]|\n[ \t]{0,40}"
# ``token_constraint`` finds forced tokens itself: the library would also force special tokens whose
# names occur in a schema as text, and these do not fit.
_OPTIONS = '%llguidance {"no_forcing": true}'
_CACHED_SCHEMAS = 256


def may_call(request: GenerationRequest) -> bool:
    """Return whether a constrained answer can be a tool call."""
    choice = request.tool_choice.mode
    return choice == "required" or (choice == "auto" and bool(request.tools))


def answer_grammar(request: GenerationRequest, family: Family, lark: str | None = None) -> str:
    """Return the grammar of a constrained request's answer.

    Where the model may choose, the grammar allows the text and a call; where a call is required, it
    allows only calls.
    """
    rules = _Rules(family, allows_more_keys=request.allows_more_keys)
    if request.tool_choice.mode == "required":
        return rules.grammar(None, _wanted_tools(request))
    assert request.constraint is not None
    whole = rules.grammar(request.constraint, request.tools if may_call(request) else ())
    return with_own_grammar(whole, lark)


def schema_grammar(schema: Mapping[str, Any], *, allows_more_keys: bool = False) -> str:
    """Return the grammar of one schema alone."""
    return f"start: %json {_json_schema(schema, allows_more_keys)}\n"


def form_grammar(form: TextForm, lark: str | None = None) -> str:
    """Return the grammar of one form of text alone."""
    rules = "\n".join([_OPTIONS, "start: document", *document_rules(form), ""])
    return with_own_grammar(rules, lark)


_DESCRIBING = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    }
)


def answer_schema(constraint: OutputConstraint) -> Mapping[str, Any]:
    """Return the schema that a constraint stands for."""
    return {"type": "object"} if constraint.json_schema is None else constraint.json_schema


def arguments_schema(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments, which are always an object.

    A tool that describes no argument takes none.
    """
    described: dict[str, Any] = {} if tool.parameters.keys() & _DESCRIBING else {"properties": {}}
    return {**described, **tool.parameters, "type": "object"}


def _wanted_tools(request: GenerationRequest) -> Sequence[Tool]:
    name = request.tool_choice.name
    if not request.tools:
        raise InvalidRequest("tool_choice", "a call is required, but there are no tools")
    if name is None:
        return request.tools
    wanted = [tool for tool in request.tools if tool.name == name]
    if not wanted:
        known = ", ".join(tool.name for tool in request.tools)[:200]
        raise InvalidRequest(
            "tool_choice", f"there is no tool {name[:200]!r}; the tools are: {known}"
        )
    return wanted


class _Rules:
    """Writes the rules of a grammar in one model's format."""

    def __init__(self, family: Family, *, allows_more_keys: bool) -> None:
        self._family = family
        self._allows_more_keys = allows_more_keys

    def grammar(self, constraint: OutputConstraint | None, tools: Sequence[Tool]) -> str:
        """Return the rules of a text (if a constraint is given) or a call of one of the tools."""
        rules: list[str] = []
        choices: list[str] = []
        if constraint is not None:
            choices.append("answer")
            rules.append(f"answer: {_framed(self._family.answer_frame, 'document')}")
            rules.extend(self._document(constraint))
        for number, tool in enumerate(tools):
            field = "tool_choice" if constraint is None else "constraint"
            frame = self._call_frame(tool.name, field)
            choices.append(f"call{number}")
            rules.append(f"call{number}: {_framed(frame, f'arguments{number}')}")
            rules.append(f"arguments{number}: {self._json(arguments_schema(tool))}")
        start = f"start: {self._reasoning(rules)}({' | '.join(choices)})"
        return "\n".join([_OPTIONS, start, *rules, ""])

    def _document(self, constraint: OutputConstraint) -> list[str]:
        if constraint.text_form is not None:
            return document_rules(constraint.text_form)
        return [f"document: {self._json(answer_schema(constraint))}"]

    def _json(self, schema: Mapping[str, Any]) -> str:
        return f"%json {_json_schema(schema, self._allows_more_keys)}"

    def _reasoning(self, rules: list[str]) -> str:
        """Add the rules of reasoning where it is a message of its own."""
        frame = self._family.reasoning_frame
        if frame is None:
            return ""
        rules.append(f"reasoning: {_framed(frame, 'PROSE')}")
        rules.append(r"PROSE: /(.|\n)*/")
        return "reasoning? "

    def _call_frame(self, name: str, field: str) -> OutputFrame:
        try:
            frame = self._family.call_frame(name)
        except ValueError as error:
            raise InvalidRequest(field, str(error)) from error
        if frame is None:
            raise InvalidRequest(field, _unsupported(field))
        return frame


def _framed(frame: OutputFrame, rule: str) -> str:
    """Return a rule of the grammar between the marks before and after it."""
    return " ".join(part for part in (_spelled(frame.before), rule, _spelled(frame.after)) if part)


def _spelled(marks: Marks) -> str:
    return " ".join(_mark(mark) for mark in marks)


def _mark(mark: int | str | OptionalMarks) -> str:
    if isinstance(mark, OptionalMarks):
        return f"({_spelled(mark.parts)})?"
    return f"<[{mark}]>" if isinstance(mark, int) else json.dumps(mark, ensure_ascii=False)


def _unsupported(field: str) -> str:
    works = (
        "a call can be forced only where the model writes it as JSON between tags "
        '(<tool_call>{"name": …}</tool_call>) or as a message of its own, and this model writes '
        "its calls in another way"
    )
    if field == "constraint":
        return f"beside tools it needs a model whose calls can be forced: {works}"
    return works


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON."""
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it contains a lone surrogate, which is not a character") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except TypeError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    return text


def _json_schema(schema: Mapping[str, Any], allows_more_keys: bool) -> str:
    try:
        return _with_options(schema_text(schema), allows_more_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@lru_cache(_CACHED_SCHEMAS)
def _with_options(text: str, allows_more_keys: bool) -> str:
    """Return the text of a schema, closed and with our options for the library."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"longer than {MOST_CHARACTERS} characters, written as JSON")
    schema = json.loads(text)
    # Overrides the library's options in the schema: "lenient", for example, would allow anything.
    options = {"x-guidance": {"whitespace_pattern": _SPACE}}
    held = schema if allows_more_keys else closed(schema)
    return json.dumps({**held, **options}, ensure_ascii=False)
