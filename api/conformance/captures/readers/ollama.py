"""Reads Ollama's answers, from ``/api/chat`` and ``/api/generate``. Pure; any thread."""

import json
from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding

_ENDINGS = {"stop": CapturedEnding.NATURAL_OR_STOP, "length": CapturedEnding.LIMIT}


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take(draft, 0, body)


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read one object a line."""
    is_done = False
    for index, frame in enumerate(frames):
        value = mapping(frame.value)
        if is_done and value:
            draft.misplaced(index, "An object comes after the one that says done.")
        _take(draft, index, value)
        is_done |= value.get("done") is True
    if draft.error is None and not is_done:
        draft.lacks_end('The stream ends without an object that says "done": true.')


def _take(draft: Draft, index: int, value: dict[str, Any]) -> None:
    if "error" in value:
        draft.set_error(value["error"])
        return
    draft.model = value.get("model") or draft.model
    message = mapping(value.get("message"))
    draft.add_text(index, message.get("content"))
    draft.add_text(index, value.get("response"))
    draft.add_thinking(index, message.get("thinking") or value.get("thinking"))
    for number, call in enumerate(items(message.get("tool_calls"))):
        function = mapping(mapping(call).get("function"))
        arguments = json.dumps(function.get("arguments"), ensure_ascii=False)
        draft.add_call((index, number), function.get("name"), arguments)
    if value.get("done") is not True:
        return
    reason = value.get("done_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))
    if "eval_count" in value:
        draft.usage = usage(value, "prompt_eval_count", "eval_count")
    else:
        draft.lacks_usage("The last object has no token counts (eval_count).")
