"""The tools that requests of OpenAI's APIs offer, as the client and as the model know them. Pure.

A model knows functions with JSON arguments and one name each. Clients of OpenAI's APIs also offer
functions in namespaces, and custom tools, whose input is any text. Each is a function for the
model, and its calls are returned in the client's own terms.

https://platform.openai.com/docs/guides/function-calling
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from api.dialects.openai.wire import CustomFormat
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import no_tool_to_call
from api.service.errors import FieldPath, invalid, required, shown, unsupported
from engine.values.request import Tool, ToolChoice

_INPUT = "input"
_NAMESPACE_SEPARATOR = "__"
_FIELD = "tool_choice"
_KINDS = ("function", "custom")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a request."""

    function: Tool
    name: str
    namespace: str | None = None
    is_custom: bool = False


def function_name(name: str, namespace: str | None) -> str:
    """Return the name of a tool and of its earlier calls for the model."""
    if not namespace:
        return name
    return f"{namespace.removesuffix(_NAMESPACE_SEPARATOR)}{_NAMESPACE_SEPARATOR}{name}"


def offer_function(tool: Tool, namespace: str | None = None) -> OfferedTool:
    """Return a function as it is offered."""
    known = Tool(function_name(tool.name, namespace), tool.description, tool.parameters)
    return OfferedTool(known, tool.name, namespace)


def offer_custom_tool(
    name: str,
    description: str | None,
    form: CustomFormat | None,
    path: FieldPath,
    namespace: str | None = None,
) -> OfferedTool:
    """Return a custom tool as it is offered.

    A required call is held to a regular expression. A grammar is only described to the model: it
    would have to hold for the text inside a JSON string.
    """
    text: dict[str, Any] = {"type": "string", "description": "The whole input, as one string."}
    texts = [description or "", f'The input of this tool is one text, in the argument "{_INPUT}".']
    if form is not None and form.type == "grammar":
        grammar = form.grammar or form
        grammar_path = path if form.grammar is None else (*path, "grammar")
        if not grammar.definition:
            raise required((*grammar_path, "definition"))
        if grammar.syntax == "regex":
            text["pattern"] = f"^(?:{grammar.definition})$"
        elif grammar.syntax == "lark":
            texts.append(f"It follows this grammar, in Lark's notation:\n{grammar.definition}")
        else:
            raise unsupported((*grammar_path, "syntax"), f"the syntax {shown(str(grammar.syntax))}")
    elif form is not None and form.type != "text":
        raise unsupported((*path, "type"), f"the format {shown(form.type)}")
    parameters = {
        "type": "object",
        "properties": {_INPUT: text},
        "required": [_INPUT],
        "additionalProperties": False,
    }
    described = "\n\n".join(filter(None, texts))
    known = Tool(function_name(name, namespace), described, parameters)
    return OfferedTool(known, name, namespace, is_custom=True)


def find_called_tool(name: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the tool that a call of the model means; None if it is none of them.

    Models sometimes leave a namespace out; its only tool of that name is meant then.
    """
    exact = [tool for tool in tools if tool.function.name == name]
    similar = exact[:1] or [tool for tool in tools if tool.name == name]
    return similar[0] if len(similar) == 1 else None


def arguments_of_input(text: str) -> str:
    """Return the arguments of the function that stands for a custom tool."""
    return json.dumps({_INPUT: text}, ensure_ascii=False)


def input_of_arguments(arguments: str) -> str:
    """Return the input of a custom call; if the model wrote other arguments, all of them."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict):
        # A model that names its one argument otherwise means the same.
        value = value.get(_INPUT, next(iter(value.values())) if len(value) == 1 else None)
    if not isinstance(value, str):
        return arguments
    # Escapes of JSON can contain lone surrogates.
    return value.encode("utf-8", "replace").decode()


def choose_tools(
    choice: object, offered: Sequence[OfferedTool], params: WireModel
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return the offered tools of a request, and whether one of them must be called."""
    tools, is_required = [tool.function for tool in offered], False
    match choice:
        case None | "auto":
            pass
        case "none":
            return (), ToolChoice("none")
        case "required":
            is_required = True
        case dict() if choice.get("type") in _KINDS:
            return tuple(tools), ToolChoice("required", _found(choice, _by_name(offered)).name)
        case dict() if choice.get("type") == "allowed_tools":
            tools, is_required = _allowed(choice, offered)
        case str(kind) | {"type": kind}:
            raise unsupported((_FIELD,), f"the tool choice {kind!r}")
        case _:
            raise invalid((_FIELD,), "must be a word, an object with a type, or null")
    if is_required and not tools:
        raise no_tool_to_call(params)
    return tuple(tools), ToolChoice("required" if is_required else "auto")


def _allowed(choice: dict[str, object], offered: Sequence[OfferedTool]) -> tuple[list[Tool], bool]:
    """Return the tools of a list, and whether it requires a call; Chat has it one level deeper."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(listed, list):
        raise invalid((_FIELD, "tools"), "must be a list of tools")
    by_name, by_namespace = _by_name(offered), defaultdict[str, list[Tool]](list)
    for tool in offered:
        by_namespace[tool.namespace or ""].append(tool.function)
    allowed: dict[str, Tool] = {}
    for listed_tool in listed:
        kind = listed_tool.get("type", "function") if isinstance(listed_tool, dict) else None
        if kind == "namespace":
            # Removed, because a list can repeat a namespace thousands of times.
            tools = by_namespace.pop(str(listed_tool.get("name")), [])
        elif kind in _KINDS:
            tools = [_found(listed_tool, by_name)]
        else:
            # Other kinds do not run here and were left out, so that they cannot be called either.
            continue
        for function in tools:
            allowed.setdefault(function.name, function)
    return list(allowed.values()), isinstance(inner, dict) and inner.get("mode") == "required"


def _by_name(offered: Sequence[OfferedTool]) -> dict[tuple[str, str | None, bool], Tool]:
    """Return the functions by the names that a choice may have for them, namespace and kind."""
    functions: dict[tuple[str, str | None, bool], Tool] = {}
    for tool in offered:
        for name, namespace in product((tool.name, tool.function.name), (None, tool.namespace)):
            functions.setdefault((name, namespace, tool.is_custom), tool.function)
    return functions


def _found(choice: dict[str, object], by_name: Mapping[tuple[str, str | None, bool], Tool]) -> Tool:
    """Return the function of a tool that the client names; its namespace may be left out."""
    kind = str(choice.get("type") or "function")
    inner = choice.get(kind, choice)
    name = inner.get("name") if isinstance(inner, dict) else None
    path: FieldPath = (_FIELD, kind, "name") if kind in choice else (_FIELD, "name")
    if not isinstance(name, str) or not name:
        raise invalid(path, "must be the name of one of the tools")
    namespace = choice.get("namespace")
    key = (name, None if namespace is None else str(namespace), kind == "custom")
    if key not in by_name:
        raise invalid((_FIELD,), f"{shown(name)} is not among the tools")
    return by_name[key]
