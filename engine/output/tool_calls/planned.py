"""Finds a tool call that reasoning wrote out, where the answer then ended without any call.

Only the text of a call counts, whatever the reasoning says about it: a declared tool's name with
one of its own arguments directly behind it, as ``name(city=``, ``name({"city":`` or
``"name": "…", "arguments": {"city":``. A tool that was called since the last question is left out:
the reasoning may speak of that call. Pure; any thread.
"""

import re
from collections.abc import Iterator, Mapping

from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Tool

# The first key of a JSON object, or its end.
_IN_JSON = r"\{\s*(?:[\"']([^\"']+)[\"']\s*:|\})"
_ENDS = (StopKind.EOS, StopKind.STOP_STRING, StopKind.STOP_TOKEN)


def planned_call(
    kind: StopKind, thinking: str, request: GenerationRequest, *, has_calls: bool
) -> str | None:
    """Return the tool whose call reasoning wrote last, if the answer ended without a call."""
    if not thinking or has_calls or kind not in _ENDS or request.tool_choice.mode == "none":
        return None
    called = _called_since_question(request)
    found = [
        (start, tool.name)
        for tool in request.tools
        if tool.name in thinking and tool.name not in called
        for start in _calls(tool, thinking)
    ]
    return max(found)[1] if found else None


def _called_since_question(request: GenerationRequest) -> set[str]:
    called: set[str] = set()
    for message in reversed(request.messages):
        if message.role == "user":
            break
        called.update(call.name for call in message.tool_calls)
    return called


def _calls(tool: Tool, thinking: str) -> Iterator[int]:
    """Yield where calls of a tool begin: with one of its arguments, or none if it takes none."""
    name, properties = re.escape(tool.name), tool.parameters.get("properties")
    parameters = properties if isinstance(properties, Mapping) else {}
    # The literal name comes first, because a search for it is fast; then its beginning is checked.
    pattern = (
        rf"{name}(?<![\w.-]{name})"
        rf"(?:\(\s*(?:([\w.-]+)\s*=(?!=)|{_IN_JSON}|\))"
        rf"|[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:\s*{_IN_JSON})"
    )
    for match in re.finditer(pattern, thinking):
        argument = next(filter(None, match.groups()), None)
        if argument in parameters if parameters else argument is None:
            yield match.start()
