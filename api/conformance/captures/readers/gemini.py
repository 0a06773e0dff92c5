"""Reads answers of Gemini's ``generateContent`` and ``streamGenerateContent``.

https://ai.google.dev/api/generate-content. Pure; any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.choice import ChoiceDraft
from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage

_ENDINGS = {
    "STOP": CapturedEnding.NATURAL_OR_STOP,
    "MAX_TOKENS": CapturedEnding.LIMIT,
}
REASONS = frozenset(_ENDINGS) | {
    "FINISH_REASON_UNSPECIFIED",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "IMAGE_RECITATION",
    "NO_IMAGE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
}


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take(draft, 0, body)
    if draft.usage is None:
        draft.lacks_usage("The answer has no usageMetadata.")


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream; it ends with the reason in its last part."""
    for index, value in draft.values(frames):
        _take(draft, index, value)
    if draft.error is None and draft.usage is None:
        draft.lacks_usage("The stream has no usageMetadata.")


def _take(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.model = value.get("modelVersion") or draft.model
    for candidate in map(mapping, items(value.get("candidates"))):
        into = draft.choice(candidate.get("index"))
        for number, part in enumerate(
            map(mapping, items(mapping(candidate.get("content")).get("parts")))
        ):
            _add(into, index, number, part)
        reason = candidate.get("finishReason")
        if isinstance(reason, str):
            into.set_reason(index, reason, _ending(into, reason))
    blocked = mapping(value.get("promptFeedback")).get("blockReason")
    if isinstance(blocked, str):
        draft.set_error(f"the prompt was blocked: {blocked}")
    if isinstance(value.get("usageMetadata"), dict):
        draft.usage = _usage(value["usageMetadata"])


def _add(into: ChoiceDraft, index: int, number: int, part: dict[str, Any]) -> None:
    if part.get("thought") is True:
        into.add_thinking(index, part.get("text"))
    else:
        into.add_text(index, part.get("text"))
    call = mapping(part.get("functionCall"))
    if call:
        arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
        into.add_call((index, number), call.get("name"), arguments)


def _ending(into: ChoiceDraft, reason: str) -> CapturedEnding:
    """Return what a reason means; an answer that ends with a call has the usual reason."""
    if reason == "STOP" and into.calls():
        return CapturedEnding.TOOL
    return _ENDINGS.get(reason, CapturedEnding.OTHER)


def _usage(value: dict[str, Any]) -> CapturedUsage:
    found = usage(
        value,
        "promptTokenCount",
        "candidatesTokenCount",
        ("cachedContentTokenCount",),
        "totalTokenCount",
    )
    # Thinking is counted separately from the answer, and tool results separately from the prompt.
    thought = value.get("thoughtsTokenCount")
    used = value.get("toolUsePromptTokenCount")
    beside = sum(one for one in (thought, used) if isinstance(one, int))
    if found.output_tokens is None or not beside:
        return found
    total = found.total_tokens
    return replace(found, total_tokens=None if total is None else total - beside)
