"""Reads answers of Bedrock's ``Converse`` and ``ConverseStream``.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. In the stream,
each event is named by a header; programs save it as an object with the name as its only key. Pure;
any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage

_ENDINGS = {
    "end_turn": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "max_tokens": CapturedEnding.LIMIT,
    "model_context_window_exceeded": CapturedEnding.LIMIT,
    "tool_use": CapturedEnding.TOOL,
}
REASONS = frozenset(_ENDINGS) | {
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
}
EVENTS = frozenset(
    {
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    }
)


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    message = mapping(mapping(body.get("output")).get("message"))
    for number, block in enumerate(map(mapping, items(message.get("content")))):
        draft.add_text(0, block.get("text"))
        _think(draft, 0, mapping(mapping(block.get("reasoningContent")).get("reasoningText")))
        call = mapping(block.get("toolUse"))
        if call:
            arguments = json.dumps(call.get("input"), ensure_ascii=False)
            draft.add_call(number, call.get("name"), arguments)
    _end(draft, 0, body)
    if isinstance(body.get("usage"), dict):
        draft.usage = _usage(body["usage"])
    else:
        draft.lacks_usage("The answer has no usage.")


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream, checking the order of its events on the way."""
    has_started = has_ended = False
    for index, frame in enumerate(frames):
        name, value = _event(frame)
        if name.endswith("Exception") or name == "error":
            draft.set_error(value.get("message") or name)
            continue
        if name in EVENTS - {"metadata"}:
            if has_ended:
                draft.misplaced(index, f"{name} comes after messageStop.")
            elif not has_started and name != "messageStart":
                draft.misplaced(index, f"{name} comes before messageStart.")
        has_started |= name == "messageStart"
        has_ended |= name == "messageStop"
        _take(draft, index, name, value)
    if draft.error is None and not has_ended:
        draft.lacks_end("The stream ends without messageStop.")
    elif draft.error is None and draft.usage is None:
        draft.lacks_usage("The stream has no metadata with its usage.")


def _event(frame: Frame) -> tuple[str, dict[str, Any]]:
    """Return the name of an event and its value."""
    value = mapping(frame.value)
    if frame.name:
        # Clients may save the name inside the event, too.
        return frame.name, mapping(value.get(frame.name)) or value
    name = next((one for one in value if one in EVENTS or one.endswith("Exception")), "")
    return name, mapping(value.get(name))


def _take(draft: Draft, index: int, name: str, value: dict[str, Any]) -> None:
    block = value.get("contentBlockIndex")
    match name:
        case "contentBlockStart":
            call = mapping(mapping(value.get("start")).get("toolUse"))
            if call:
                draft.add_call(block, call.get("name"), "")
        case "contentBlockDelta":
            delta = mapping(value.get("delta"))
            draft.add_text(index, delta.get("text"))
            _think(draft, index, mapping(delta.get("reasoningContent")))
            if isinstance(delta.get("toolUse"), dict):
                draft.add_call(block, "", delta["toolUse"].get("input"))
        case "messageStop":
            _end(draft, index, value)
        case "metadata" if isinstance(value.get("usage"), dict):
            draft.usage = _usage(value["usage"])
        case _:
            pass


def _think(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.add_thinking(index, value.get("text"))


def _end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    more = mapping(value.get("additionalModelResponseFields"))
    # Only some models report the stop that matched, and only on request.
    if "stop_sequence" in more:
        draft.set_matched(more["stop_sequence"])
    reason = value.get("stopReason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))


def _usage(value: dict[str, Any]) -> CapturedUsage:
    cached = ("cacheReadInputTokens",)
    found = usage(value, "inputTokens", "outputTokens", cached, "totalTokens")
    # Tokens read from or written to a cache may be included only in the sum.
    if any(value.get(name) for name in ("cacheReadInputTokens", "cacheWriteInputTokens")):
        return replace(found, total_tokens=None)
    return found
