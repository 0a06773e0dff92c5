"""Asks a model in words for a call, where its template has no place for tools. Pure; any thread."""

import json
from collections.abc import Sequence
from dataclasses import replace

from engine.conversation.template import tool_dict
from engine.errors import InvalidRequest
from engine.grammar.schemas import MAX_LEVELS
from engine.output.tool_calls.call_text import is_deeper
from engine.output.tool_calls.formats import CALL_FORMATS
from engine.values.request import GenerationRequest, Message, Tool


def _describe_tools(tools: Sequence[Tool], name: str | None, call_style: str) -> str:
    for tool in tools:
        if is_deeper(tool.parameters, MAX_LEVELS):
            raise InvalidRequest(f"tools.{tool.name}.parameters", "nested too deeply")
    call_format = CALL_FORMATS.get(call_style)
    example = (
        f", in this form:{call_format.example}"
        if call_format is not None and call_format.example
        else "."
    )
    subject = "one of these functions" if name is None else "this function"
    described = [tool_dict(tool)["function"] for tool in tools if name in (None, tool.name)]
    return "\n".join(
        [
            f"Answer with a call of {subject} and nothing else{example}",
            "",
            "The functions, each with the JSON schema of its arguments:",
            *(json.dumps(tool, ensure_ascii=False) for tool in described),
        ]
    )


def with_described_tools(request: GenerationRequest, call_style: str) -> GenerationRequest:
    """Return a request whose first message tells of its tools; one with a prompt stays as it is."""
    if request.prompt is not None:
        return request
    instruction = _describe_tools(request.tools, request.tool_choice.name, call_style)
    messages = request.messages
    if messages and messages[0].role == "system":
        first = replace(messages[0], content=f"{messages[0].content}\n\n{instruction}")
        return replace(request, messages=(first, *messages[1:]), tools=())
    return replace(request, messages=(Message("system", instruction), *messages), tools=())
