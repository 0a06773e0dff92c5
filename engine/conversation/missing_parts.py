"""Finds which parts of a request are in no part of its prompt. Pure; any thread.

The conversation is rendered a second time with a mark in place of each part: a part whose mark the
template does not write was left out. A template that refuses the marks is searched for the texts.
"""

import json
from collections.abc import Callable
from dataclasses import replace

from engine.errors import EngineError
from engine.values.request import GenerationRequest

_IN_PART = " (in part)"


def missing_parts(
    request: GenerationRequest, prompt: str, render: Callable[[GenerationRequest], str]
) -> tuple[str, ...]:
    """Return the names of a request's parts that are not in its prompt.

    Such as ``messages.1.reasoning_content``; a text of which something is missing is "(in part)".
    """
    if request.prompt is not None:
        return ()
    # Where a call is required, the tools may be described in the prompt's text by their names.
    marks_tools = request.tool_choice.mode == "auto"
    texts: dict[str, str] = {}
    messages = []
    for index, message in enumerate(request.messages):
        name = f"messages.{index}"
        if message.content.strip():
            texts[f"{name}.content"] = message.content
            message = replace(message, content=_mark(f"{name}.content"))
        if message.thinking.strip():
            texts[f"{name}.reasoning_content"] = message.thinking
            message = replace(message, thinking=_mark(f"{name}.reasoning_content"))
        calls = []
        for number, call in enumerate(message.tool_calls):
            field = f"{name}.tool_calls.{number}"
            texts[field] = call.name
            calls.append(replace(call, arguments=json.dumps({"mark": _mark(field)})))
        messages.append(replace(message, tool_calls=tuple(calls)))
    tools = []
    for tool in request.tools:
        if not tool.is_deferred:
            field = f"tools.{tool.name}"
            texts[field] = tool.name
            tools.append(replace(tool, name=_mark(field)) if marks_tools else tool)
    marked = replace(request, messages=tuple(messages), tools=tuple(tools))
    try:
        written: str | None = render(marked)
    except EngineError:
        written = None
    plain = _without_space(prompt)
    missing: list[str] = []
    for field, text in texts.items():
        is_marked = marks_tools or not field.startswith("tools.")
        has_text = any(_without_space(form) in plain for form in _forms(text))
        if written is None or not is_marked:
            missing += [] if has_text else [field]
        elif _mark(field) not in written:
            missing.append(field)
        elif not has_text:
            missing.append(f"{field}{_IN_PART}")
    return tuple(missing)


def _mark(field: str) -> str:
    """Return a word that no text contains, and that is no beginning of another field's."""
    return f"zq{field.encode().hex()}qz"


def _forms(text: str) -> tuple[str, ...]:
    """Return a text as templates write it: as it is, or inside of JSON."""
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _without_space(text: str) -> str:
    return "".join(text.split())
