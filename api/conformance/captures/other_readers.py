"""Reads answers of the other APIs in use: Bedrock's Converse, Gemini, llama.cpp, TGI.

Pure; any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import ChoiceDraft, Draft, items, mapping, usage
from api.conformance.captures.frames import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

# Reads answers of Bedrock's ``Converse`` and ``ConverseStream``.
#
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. In the
# stream, each event is named by a header; programs save it as an object with the name as its only
# key.

_CONVERSE_ENDINGS = {
    "end_turn": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "max_tokens": CapturedEnding.LIMIT,
    "model_context_window_exceeded": CapturedEnding.LIMIT,
    "tool_use": CapturedEnding.TOOL,
}
CONVERSE_REASONS = frozenset(_CONVERSE_ENDINGS) | {
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


def read_converse_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    message = mapping(mapping(body.get("output")).get("message"))
    for number, block in enumerate(map(mapping, items(message.get("content")))):
        draft.add_text(0, block.get("text"))
        _think(draft, 0, mapping(mapping(block.get("reasoningContent")).get("reasoningText")))
        call = mapping(block.get("toolUse"))
        if call:
            arguments = json.dumps(call.get("input"), ensure_ascii=False)
            draft.add_call(number, call.get("name"), arguments)
    _converse_end(draft, 0, body)
    if isinstance(body.get("usage"), dict):
        draft.usage = _converse_usage(body["usage"])
    else:
        draft.lacks_usage("The answer has no usage.")


def read_converse_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
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
        _take_converse(draft, index, name, value)
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
    name = next((event for event in value if event in EVENTS or event.endswith("Exception")), "")
    return name, mapping(value.get(name))


def _take_converse(draft: Draft, index: int, name: str, value: dict[str, Any]) -> None:
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
            _converse_end(draft, index, value)
        case "metadata" if isinstance(value.get("usage"), dict):
            draft.usage = _converse_usage(value["usage"])
        case _:
            pass


def _think(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.add_thinking(index, value.get("text"))


def _converse_end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    more = mapping(value.get("additionalModelResponseFields"))
    # Only some models report the stop that matched, and only on request.
    if "stop_sequence" in more:
        draft.set_matched(more["stop_sequence"])
    reason = value.get("stopReason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _CONVERSE_ENDINGS.get(reason, CapturedEnding.OTHER))


def _converse_usage(value: dict[str, Any]) -> CapturedUsage:
    cached = ("cacheReadInputTokens",)
    counts = usage(value, "inputTokens", "outputTokens", cached, "totalTokens")
    # Tokens read from or written to a cache may be included only in the sum.
    if any(value.get(name) for name in ("cacheReadInputTokens", "cacheWriteInputTokens")):
        return replace(counts, total_tokens=None)
    return counts


# Reads answers of Gemini's ``generateContent`` and ``streamGenerateContent``.
#
# https://ai.google.dev/api/generate-content.

_GEMINI_ENDINGS = {
    "STOP": CapturedEnding.NATURAL_OR_STOP,
    "MAX_TOKENS": CapturedEnding.LIMIT,
}
GEMINI_REASONS = frozenset(_GEMINI_ENDINGS) | {
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


def read_gemini_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take_gemini(draft, 0, body)
    if draft.usage is None:
        draft.lacks_usage("The answer has no usageMetadata.")


def read_gemini_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream; it ends with the reason in its last part."""
    for index, value in draft.values(frames):
        _take_gemini(draft, index, value)
    if draft.error is None and draft.usage is None:
        draft.lacks_usage("The stream has no usageMetadata.")


def _take_gemini(draft: Draft, index: int, value: dict[str, Any]) -> None:
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
        draft.usage = _gemini_usage(value["usageMetadata"])


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
    return _GEMINI_ENDINGS.get(reason, CapturedEnding.OTHER)


def _gemini_usage(value: dict[str, Any]) -> CapturedUsage:
    counts = usage(
        value,
        "promptTokenCount",
        "candidatesTokenCount",
        ("cachedContentTokenCount",),
        "totalTokenCount",
    )
    # Thinking is counted separately from the answer, and tool results separately from the prompt.
    thought = value.get("thoughtsTokenCount")
    used = value.get("toolUsePromptTokenCount")
    beside = sum(tokens for tokens in (thought, used) if isinstance(tokens, int))
    if counts.output_tokens is None or not beside:
        return counts
    total = counts.total_tokens
    return replace(counts, total_tokens=None if total is None else total - beside)


# Reads answers of llama.cpp's own ``/completion``.
#
# https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md#post-completion-given-a-prompt-it-returns-the-predicted-completion

_LLAMA_CPP_ENDINGS = {
    "eos": CapturedEnding.NATURAL,
    "word": CapturedEnding.STOP,
    "limit": CapturedEnding.LIMIT,
}
LLAMA_CPP_REASONS = frozenset(_LLAMA_CPP_ENDINGS)
# Older servers send a boolean for each reason.
_FLAGS = {"stopped_word": "word", "stopped_limit": "limit", "stopped_eos": "eos"}


def read_llama_cpp_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take_llama_cpp(draft, 0, body)
    if body.get("stop") is not True:
        draft.find(
            "stop_false", Severity.WARNING, 'The answer is whole, but does not say "stop": true.', 0
        )


def read_llama_cpp_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream; its last object has ``"stop": true``."""
    has_ended = False
    for index, value in draft.values(frames):
        if has_ended and value:
            draft.misplaced(index, 'An object comes after the one that says "stop": true.')
        _take_llama_cpp(draft, index, value)
        has_ended |= value.get("stop") is True
    if draft.error is None and not has_ended:
        draft.lacks_end('The stream ends without an object that says "stop": true.')


def _take_llama_cpp(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.model = value.get("model") or draft.model
    draft.add_text(index, value.get("content"))
    ids = [item for item in items(value.get("tokens")) if isinstance(item, int)]
    draft.output_ids += ids
    if "tokens_predicted" in value:
        draft.usage = usage(value, "tokens_evaluated", "tokens_predicted")
    reason = _reason(value)
    if reason is None:
        return
    # This API sends an empty string if no stop matched.
    draft.set_matched(value.get("stopping_word") or None)
    draft.set_reason(index, reason, _LLAMA_CPP_ENDINGS.get(reason, CapturedEnding.OTHER))
    if draft.usage is None:
        draft.lacks_usage("The last object has no token counts (tokens_predicted).")


def _reason(value: dict[str, Any]) -> str | None:
    if value.get("stop") is not True:
        return None
    kind = value.get("stop_type")
    if isinstance(kind, str):
        # Servers send "none" while the answer continues.
        return kind if kind != "none" else None
    return next((reason for flag, reason in _FLAGS.items() if value.get(flag) is True), None)


# Reads answers of Text Generation Inference: ``/generate`` and ``/generate_stream``.
#
# https://huggingface.github.io/text-generation-inference/.

_TGI_ENDINGS = {
    "eos_token": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "length": CapturedEnding.LIMIT,
}
TGI_REASONS = frozenset(_TGI_ENDINGS)


def read_tgi_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.add_text(0, body.get("generated_text"))
    _tgi_end(draft, 0, body)
    if body.get("details") is None:
        draft.find(
            "details_missing",
            Severity.NOTE,
            "The answer has no details, and so no reason (request them with details: true).",
            0,
        )


def read_tgi_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream of tokens; the last event has the whole text and the reason."""
    has_ended = False
    for index, value in draft.values(frames):
        if has_ended and value:
            draft.misplaced(index, "An event comes after the one that holds the whole text.")
        token = mapping(value.get("token"))
        if token.get("special") is not True:
            draft.add_text(index, token.get("text"))
        if isinstance(token.get("id"), int):
            draft.output_ids.append(token["id"])
        whole = value.get("generated_text")
        if isinstance(whole, str):
            has_ended = True
            if whole != draft.text:
                draft.find(
                    "text_differs",
                    Severity.ERROR,
                    "generated_text differs from the tokens before it.",
                    index,
                )
            _tgi_end(draft, index, value)
    if draft.error is None and not has_ended:
        draft.lacks_end("The stream ends without an event that holds generated_text.")


def _tgi_end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    details = mapping(value.get("details"))
    prompt = details.get("input_length")
    counted = usage(details, "input_length", "generated_tokens")
    if prompt is None and isinstance(details.get("prefill"), list) and details["prefill"]:
        counted = CapturedUsage(len(details["prefill"]), counted.output_tokens)
    if "generated_tokens" in details:
        draft.usage = counted
    elif details:
        draft.lacks_usage("The details have no count of tokens (generated_tokens).")
    ids = [mapping(item).get("id") for item in items(details.get("tokens"))]
    draft.output_ids = [
        token_id for token_id in ids if isinstance(token_id, int)
    ] or draft.output_ids
    reason = details.get("finish_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _TGI_ENDINGS.get(reason, CapturedEnding.OTHER))
