"""Reads answers of Text Generation Inference: ``/generate`` and ``/generate_stream``.

https://huggingface.github.io/text-generation-inference/. Pure; any thread.
"""

from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

_ENDINGS = {
    "eos_token": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "length": CapturedEnding.LIMIT,
}
REASONS = frozenset(_ENDINGS)


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.add_text(0, body.get("generated_text"))
    _end(draft, 0, body)
    if body.get("details") is None:
        draft.find(
            "details_missing",
            Severity.NOTE,
            "The answer has no details, and so no reason (request them with details: true).",
            0,
        )


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
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
            _end(draft, index, value)
    if draft.error is None and not has_ended:
        draft.lacks_end("The stream ends without an event that holds generated_text.")


def _end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    details = mapping(value.get("details"))
    prompt = details.get("input_length")
    counted = usage(details, "input_length", "generated_tokens")
    if prompt is None and isinstance(details.get("prefill"), list) and details["prefill"]:
        counted = CapturedUsage(len(details["prefill"]), counted.output_tokens)
    if "generated_tokens" in details:
        draft.usage = counted
    elif details:
        draft.lacks_usage("The details have no count of tokens (generated_tokens).")
    ids = [mapping(one).get("id") for one in items(details.get("tokens"))]
    draft.output_ids = [one for one in ids if isinstance(one, int)] or draft.output_ids
    reason = details.get("finish_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))
