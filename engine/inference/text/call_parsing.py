"""Parses the text of tool calls with the parser that mlx-lm has for a model. No MLX.

mlx-lm's parsers return a call or a list of them and may raise anything; here they return (name,
arguments) pairs, or raise ``ValueError`` with a clear message.
"""

from collections.abc import Callable, Sequence
from typing import Any

from engine.inference.text.prompts import tool_dict
from engine.output.call_readers.arriving import CallParser
from engine.values.chat import Tool


def call_parser(parse: Callable[..., Any] | None, tools: Sequence[Tool]) -> CallParser:
    """Return the parser of one answer's tool calls."""
    offered = [tool_dict(tool) for tool in tools]

    def parse_calls(raw: str, name: str | None) -> list[tuple[str, object]]:
        if name is not None:  # the tag named the tool, so the text is its arguments
            return [(name, raw)]
        if parse is None:
            raise ValueError("this model has no tool parser")
        try:
            found = parse(raw, offered)
        except Exception as error:
            raise ValueError(str(error)) from error
        return [_call(item) for item in (found if isinstance(found, list) else [found])]

    return parse_calls


def _call(item: Any) -> tuple[str, object]:
    if not isinstance(item, dict):
        raise ValueError("a tool call must be an object")
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call must name its tool")
    return name, item.get("arguments")
