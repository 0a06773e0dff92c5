"""The tools that a request offers, as the client and as the model know them.

A model knows functions with JSON arguments and one name each. Clients of OpenAI's APIs also offer
functions in namespaces, and custom tools, whose input is any text. The model is told each of them
as a function, and its calls are told to the client in the client's own terms. Pure; any thread.

https://platform.openai.com/docs/guides/function-calling
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from api.dialects.openai.parameters import CustomFormat
from api.transport.errors import FieldPath, invalid, required, shown, unsupported
from engine import Tool

_INPUT = "input"
_JOINT = "__"
# What may stand before the input in the arguments of a call.
_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_MOST_OPENING = 64
# Whole characters and escapes of a JSON string; the two halves of a surrogate pair come together.
_WHOLE = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    r"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"
)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a request."""

    function: Tool
    name: str
    namespace: str | None = None
    is_custom: bool = False


def model_name(name: str, namespace: str | None) -> str:
    """Return the name that the model uses for a tool; earlier calls are told by the same name."""
    if not namespace:
        return name
    return f"{namespace.removesuffix(_JOINT)}{_JOINT}{name}"


def offered_function(tool: Tool, namespace: str | None = None) -> OfferedTool:
    """Return a function as it is offered."""
    known = Tool(model_name(tool.name, namespace), tool.description, tool.parameters)
    return OfferedTool(known, tool.name, namespace)


def offered_custom(
    name: str,
    description: str | None,
    form: CustomFormat | None,
    path: FieldPath,
    namespace: str | None = None,
) -> OfferedTool:
    """Return a custom tool as it is offered.

    A required call is held to a regular expression. A grammar is only told to the model: it would
    have to hold for the text inside a JSON string.
    """
    text: dict[str, Any] = {"type": "string", "description": "The whole input, as one string."}
    words = [description or "", f'The input of this tool is one text, in the argument "{_INPUT}".']
    if form is not None and form.type == "grammar":
        grammar, place = form.grammar or form, path if form.grammar is None else (*path, "grammar")
        if not grammar.definition:
            raise required((*place, "definition"))
        if grammar.syntax == "regex":
            text["pattern"] = f"^(?:{grammar.definition})$"
        elif grammar.syntax == "lark":
            words.append(f"It follows this grammar, in Lark's notation:\n{grammar.definition}")
        else:
            raise unsupported((*place, "syntax"), f"the syntax {shown(str(grammar.syntax))}")
    elif form is not None and form.type != "text":
        raise unsupported((*path, "type"), f"the format {shown(form.type)}")
    parameters = {
        "type": "object",
        "properties": {_INPUT: text},
        "required": [_INPUT],
        "additionalProperties": False,
    }
    described = "\n\n".join(word for word in words if word)
    known = Tool(model_name(name, namespace), described, parameters)
    return OfferedTool(known, name, namespace, is_custom=True)


def check_names(tools: Sequence[OfferedTool]) -> None:
    """Refuse tools of different namespaces that have the same name for the model."""
    known: dict[str, OfferedTool] = {}
    for tool in tools:
        other = known.setdefault(tool.function.name, tool)
        if (other.name, other.namespace) != (tool.name, tool.namespace):
            raise invalid(("tools",), f"two tools have the name {shown(tool.function.name)}")


def called_tool(name: str, tools: Iterable[OfferedTool]) -> OfferedTool | None:
    """Return the tool that a call of the model means; None if it is none of them.

    Models sometimes leave a namespace out; its only tool of that name is meant then.
    """
    similar = []
    for tool in tools:
        if tool.function.name == name:
            return tool
        if tool.name == name:
            similar.append(tool)
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
    return _encodable(value) if isinstance(value, str) else arguments


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which escapes of JSON can contain."""
    return text.encode("utf-8", "replace").decode()


class GrowingInput:
    """The input of a custom call while the model writes the call's arguments."""

    def __init__(self) -> None:
        self.text = ""
        self._pending = ""
        self._is_inside = False
        self._has_ended = False

    def add(self, arguments: str) -> str:
        """Return what more arguments add to the input."""
        if self._has_ended:
            return ""
        self._pending += arguments
        if not self._is_inside:
            opening = _OPENING.match(self._pending)
            if opening is None:
                self._has_ended = len(self._pending) > _MOST_OPENING
                return ""
            self._is_inside = True
            self._pending = self._pending[opening.end() :]
        return self._added(self._inner())

    def rest(self, arguments: str) -> str:
        """Return what the whole arguments add to the input."""
        whole = input_of_arguments(arguments)
        return self._added(whole[len(self.text) :] if whole.startswith(self.text) else "")

    def _inner(self) -> str:
        """Return the complete characters of the string that is being written."""
        found = _WHOLE.match(self._pending)
        assert found is not None  # it matches no characters, too
        self._pending = self._pending[found.end() :]
        self._has_ended = self._pending.startswith('"')
        try:
            text: str = json.loads(f'"{found[0]}"', strict=False)
        except ValueError:  # an unknown escape: only the whole arguments can tell
            self._has_ended = True
            return ""
        return text

    def _added(self, more: str) -> str:
        self.text += more
        return more
