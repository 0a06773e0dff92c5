"""Finds a tool call that reasoning wrote out, where the answer then ended without any call.

Only a call with its arguments counts: the exact name of a declared tool as a word, directly
followed by arguments in brackets, by a JSON object, or by ``with`` and the tool's own parameters,
each with a literal value. A tool that is only mentioned is not planned, nor is its signature. A
call that its own sentence rejects, supposes, or reports as made is not planned either; a later
change of mind does not take a plan back. A tool that was called since the last question is left
out, because the reasoning may speak of its call. Pure; any thread.
"""

import re
from collections.abc import Mapping

from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Tool

_ENDS = (StopKind.EOS, StopKind.STOP_STRING, StopKind.STOP_TOKEN)
# Bounds of the search, which runs on the engine's thread: of long reasoning only the end counts.
_MAX_CHARS = 32_000
_MAX_MENTIONS = 50
_MAX_ARGUMENT_CHARS = 1_000
_MAX_SENTENCE_CHARS = 160

_QUOTES = r"[\"'`*]{0,3}"
_CALL = re.compile(rf"{_QUOTES}\s?\(")
_OBJECT = re.compile(
    rf"{_QUOTES}(?:\s*,\s*[\"']?(?:arguments|parameters|args|input)[\"']?\s*[:=])?\s*:?\s*(?=\{{)"
)
_WITH = re.compile(rf"{_QUOTES}\s+(?:(?:tool|function)\s+)?(?:with|using|passing)\s")
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_LITERAL = (
    r"(?!([\"'`])(?:str|string|int|integer|number|float|bool|boolean|object|array|list|\.+|…)?\1)"
    r"(?:[\"'`\[{]|-?\d|[Tt]rue\b|[Ff]alse\b|null\b|None\b)"
)
_VALUE = re.compile(rf"\s*{_LITERAL}")
_REJECTED = re.compile(
    r"n['’]t\b|\b(?:not|never|no|without|instead|rather|avoid|if|unless|eg|example|such as|already"
    r"|called|used|returned|results?|previous|previously|earlier|could|would|might|may)\b",
    re.IGNORECASE,
)
_REJECTED_AFTER = re.compile(
    r"n['’]t\b|\b(?:but|however|not|unnecessary|returned|gave|got|was|were)\b|->|=>|→|⇒",
    re.IGNORECASE,
)


def planned_call(
    kind: StopKind, thinking: str, request: GenerationRequest, *, has_calls: bool
) -> str | None:
    """Return the tool whose call reasoning planned last, if the answer ended without a call."""
    if not thinking or has_calls or kind not in _ENDS or request.tool_choice.mode == "none":
        return None
    thinking = thinking[-_MAX_CHARS:]
    called = _called_since_question(request)
    tools = {tool.name: tool for tool in request.tools if tool.name in thinking}
    names = "|".join(re.escape(name) for name in sorted(tools, key=len, reverse=True))
    mentions = list(re.finditer(rf"(?<![\w.-])(?:{names})(?![\w-])", thinking)) if names else []
    for mention in reversed(mentions[-_MAX_MENTIONS:]):
        name = mention[0]
        if name not in called and _is_planned(
            thinking, mention.start(), mention.end(), tools[name]
        ):
            return name
    return None


def _called_since_question(request: GenerationRequest) -> set[str]:
    called: set[str] = set()
    for message in reversed(request.messages):
        if message.role == "user":
            break
        called.update(call.name for call in message.tool_calls)
    return called


def _is_planned(thinking: str, start: int, end: int, tool: Tool) -> bool:
    before = thinking[max(0, start - _MAX_SENTENCE_CHARS) : start].replace("e.g.", "eg")
    if _REJECTED.search(_SENTENCE_END.split(before)[-1]):
        return False
    behind = thinking[end : end + _MAX_ARGUMENT_CHARS]
    if match := _CALL.match(behind):
        arguments = _bracketed(behind[match.end() - 1 :], "(", ")")
    elif match := _OBJECT.match(behind):
        arguments = _bracketed(behind[match.end() :], "{", "}")
    elif match := _WITH.match(behind):
        arguments = _SENTENCE_END.split(behind[match.end() :])[0]
        return _has_own_arguments(arguments, tool) and not _REJECTED_AFTER.search(arguments)
    else:
        return False
    if arguments is None:
        return False
    rest = behind[behind.index(arguments, match.end() - 1) + len(arguments) :]
    if _REJECTED_AFTER.search(_SENTENCE_END.split(rest[:_MAX_SENTENCE_CHARS])[0]):
        return False
    inside = arguments[1:-1].strip()
    if not inside:
        return not _parameters(tool)
    is_positional = arguments[0] == "(" and _VALUE.match(inside) is not None
    return is_positional or _has_own_arguments(inside, tool)


def _has_own_arguments(text: str, tool: Tool) -> bool:
    """Whether a text gives a value to a parameter of the tool."""
    return any(
        re.search(rf"(?<![\w-])[\"'`]?{re.escape(name)}[\"'`]?\s*[:=]\s*{_LITERAL}", text)
        for name in _parameters(tool)
        if name in text
    )


def _parameters(tool: Tool) -> Mapping[str, object]:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _bracketed(text: str, opening: str, closing: str) -> str | None:
    """Return the text up to the bracket that closes the first one; None if none does."""
    depth, quote = 0, ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[index - 1] != "\\" else quote
        elif char in "\"'" and not (char == "'" and text[index - 1 : index].isalnum()):
            quote = char
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if not depth:
                return text[: index + 1]
    return None
