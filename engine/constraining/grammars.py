"""Writes the grammar of a constrained answer: JSON of a schema, or a call of one of the tools.

Pure text in llguidance's Lark dialect: ``<[5]>`` is the token 5, ``%json`` a JSON schema. Knows no
tokenizer and no model. Any thread.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine.constraining.closing import closed
from engine.constraining.schema_bounds import MOST_CHARACTERS
from engine.errors import InvalidRequest
from engine.output.channels import ChannelFormat
from engine.values.chat import Tool
from engine.values.request import GenerationRequest, OutputConstraint

JSON_CALLS = "json_tools"
"""mlx-lm's name of the style ``<tool_call>{"name": …, "arguments": …}</tool_call>``."""

# One blank, or a new line and its indentation: a model that is unsure would otherwise write
# white space, which JSON allows without end, until it meets the limit.
_SPACE = r"[ ]|\n[ \t]{0,40}"
# Where only one text can follow, the library would choose its tokens; the model knows better.
_OPTIONS = '%llguidance {"no_forcing": true}'
_CACHED_SCHEMAS = 256
_HARMONY_NAME = re.compile(r"[^\s<]+")


def is_constrained(request: GenerationRequest) -> bool:
    """Say whether an answer to this request is held to a grammar."""
    return request.constraint is not None or request.tool_choice.mode == "required"


def may_call(request: GenerationRequest) -> bool:
    """Say whether a constrained answer can be a tool call."""
    choice = request.tool_choice.mode
    return choice == "required" or (choice == "auto" and bool(request.tools))


def answer_grammar(request: GenerationRequest, channels: ChannelFormat, call_style: str) -> str:
    """Return the grammar of a constrained request's answer.

    Where the model may choose, both JSON and a call are allowed; a call that is required
    leaves no room for the JSON.

    Args:
        request: With a constraint, or with a tool call required.
        channels: The model's tags.
        call_style: mlx-lm's name of the model's tool calls, empty where it knows none.

    Raises:
        InvalidRequest: The tools, or the model, cannot do what is asked.
    """
    rules = _Rules(channels, call_style, allows_more_keys=request.allows_more_keys)
    if request.tool_choice.mode == "required":
        return rules.grammar(None, _wanted_tools(request))
    assert request.constraint is not None
    return rules.grammar(request.constraint, request.tools if may_call(request) else ())


def schema_grammar(schema: Mapping[str, Any], *, allows_more_keys: bool = False) -> str:
    """Return the grammar of one schema alone.

    Args:
        schema: The schema.
        allows_more_keys: Whether objects may have keys that it neither names nor rules out.

    Raises:
        ValueError: The schema is no JSON.
    """
    return f"start: %json {_json_schema(schema, allows_more_keys)}\n"


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

    def __init__(self, channels: ChannelFormat, call_style: str, *, allows_more_keys: bool) -> None:
        self._allows_more_keys = allows_more_keys
        self._channels = channels
        self._harmony = channels.harmony
        self._style = call_style
        self._tags = {tag: f"<[{token_id}]>" for token_id, tag in channels.ids.items()}

    def grammar(self, constraint: OutputConstraint | None, tools: Sequence[Tool]) -> str:
        """Return the grammar of JSON, if a constraint is given, or a call of one of the tools."""
        rules: list[str] = []
        choices: list[str] = []
        if constraint is not None:
            choices.append("answer")
            rules.append(f"answer: {self._final()} document")
            rules.append(f"document: {self._json(answer_schema(constraint))}")
        for number, tool in enumerate(tools):
            field = "tool_choice" if constraint is None else "constraint"
            choices.append(f"call{number}")
            rules.append(f"call{number}: {self._call(tool.name, f'arguments{number}', field)}")
            rules.append(f"arguments{number}: {self._json(arguments_schema(tool))}")
        start = f"start: {self._analysis(rules)}({' | '.join(choices)})"
        return "\n".join([_OPTIONS, start, *rules, ""])

    def _json(self, schema: Mapping[str, Any]) -> str:
        return f"%json {_json_schema(schema, self._allows_more_keys)}"

    def _analysis(self, rules: list[str]) -> str:
        """Harmony's reasoning is a message of its own, and so part of the grammar."""
        if not self._harmony:
            return ""
        header = f'{self._marker("channel")} "analysis" {self._marker("message")}'
        after = f'{self._marker("end")} {self._marker("start")} "assistant"'
        rules.append(f"analysis: {header} PROSE {after}")
        rules.append(r"PROSE: /(.|\n)*/")
        return "analysis? "

    def _final(self) -> str:
        if not self._harmony:
            return ""
        header = f'{self._marker("channel")} "final" {self._json_mark("?")}'
        return f"{header} {self._marker('message')}"

    def _call(self, name: str, arguments: str, field: str) -> str:
        if self._harmony:
            if not _HARMONY_NAME.fullmatch(name):
                raise InvalidRequest(field, f"this model cannot call a tool named {name!r}")
            recipient = _literal(f"commentary to=functions.{name}")
            header = f"{self._marker('channel')} {recipient} {self._json_mark('')}"
            return f"{header} {self._marker('message')} {arguments}"
        start = self._tags.get(self._channels.tool_start or "")
        end = self._tags.get(self._channels.tool_end or "")
        if self._style != JSON_CALLS or start is None or end is None:
            raise InvalidRequest(field, _unsupported(field))
        quoted = json.dumps(name, ensure_ascii=False)
        head = _literal(f'\n{{"name": {quoted}, "arguments": ')
        return f'{start} {head} {arguments} "}}\\n" {end}'

    def _marker(self, name: str) -> str:
        return f"<[{self._harmony[f'<|{name}|>']}]>"

    def _json_mark(self, count: str) -> str:
        if "<|constrain|>" not in self._harmony:
            return ""
        return f'(" " {self._marker("constrain")} "json"){count}'


def _unsupported(field: str) -> str:
    works = (
        'a call can be forced where it is JSON between tags (<tool_call>{"name": …}</tool_call>) '
        "or a Harmony message, and this model writes its calls in another way"
    )
    if field == "constraint":
        return f"beside tools it needs a model whose calls can be forced: {works}"
    return works


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON.

    Raises:
        ValueError: The schema is no JSON.
    """
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds a lone surrogate, which is no character") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except TypeError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    return text


def _json_schema(schema: Mapping[str, Any], allows_more_keys: bool) -> str:
    try:
        return _with_options(schema_text(schema), allows_more_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@lru_cache(_CACHED_SCHEMAS)
def _with_options(text: str, allows_more_keys: bool) -> str:
    """Return the text of a schema with what we make of it."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"longer than {MOST_CHARACTERS} characters, written as JSON")
    schema = json.loads(text)
    # The library's own switches are ours to set: "lenient", say, would break the promise.
    options = {"x-guidance": {"whitespace_pattern": _SPACE}}
    held = schema if allows_more_keys else closed(schema)
    return json.dumps({**held, **options}, ensure_ascii=False)
