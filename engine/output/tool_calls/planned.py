"""Finds a tool call that reasoning wrote out, where the answer then ended without any call.

Only the text of a call counts, whatever the reasoning says about it: a declared tool's name with
one of its own arguments directly behind it, as ``name(city=``, ``name({"city":`` or
``"name": "…", "arguments": {"city":``. A tool that was called since the last question is left out:
the reasoning may speak of that call. Pure; any thread.
"""

import re
from collections.abc import Mapping

from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Tool

_ENDS = (StopKind.EOS, StopKind.STOP_STRING, StopKind.STOP_TOKEN)


def planned_call(
    kind: StopKind, thinking: str, request: GenerationRequest, *, has_calls: bool
) -> str | None:
    """Return the tool whose call reasoning wrote last, if the answer ended without a call."""
    if not thinking or has_calls or kind not in _ENDS or request.tool_choice.mode == "none":
        return None
    called = _called_since_question(request)
    found = [
        (match.start(), tool.name)
        for tool in request.tools
        if tool.name in thinking and tool.name not in called
        for match in _call(tool).finditer(thinking)
    ]
    return max(found)[1] if found else None


def _called_since_question(request: GenerationRequest) -> set[str]:
    called: set[str] = set()
    for message in reversed(request.messages):
        if message.role == "user":
            break
        called.update(call.name for call in message.tool_calls)
    return called


def _call(tool: Tool) -> re.Pattern[str]:
    """Return the beginnings of a tool's calls, up to the name of their first argument."""
    name, properties = re.escape(tool.name), tool.parameters.get("properties")
    parameters = properties if isinstance(properties, Mapping) else {}
    names = "|".join(map(re.escape, parameters))
    in_python, in_json = rf"(?:{names})\s*=(?!=)", rf"\{{\s*[\"'](?:{names})[\"']\s*:"
    if not parameters:
        in_python, in_json = r"\)", r"\{\s*\}"
    # The literal name comes first, because a search for it is fast; then its beginning is checked.
    return re.compile(
        rf"{name}(?<![\w.-]{name})"
        rf"(?:\(\s*(?:{in_python}|{in_json})"
        rf"|[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:\s*{in_json})"
    )
