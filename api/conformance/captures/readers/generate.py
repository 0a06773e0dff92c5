"""Reads answers of SGLang's ``/generate``, each frame has the whole text. Pure."""

from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, Severity


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.add_text(0, body.get("text"))
    _end(draft, 0, body)


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read frames of cumulative text."""
    for index, value in draft.values_until_done(frames, "A frame"):
        text = value.get("text")
        if isinstance(text, str):
            if text.startswith(draft.text):
                draft.add_text(index, text[len(draft.text) :])
            else:
                draft.find(
                    "text_retracted",
                    Severity.ERROR,
                    "The text of an event does not begin with the text of the event before it.",
                    index,
                )
        _end(draft, index, value)


def _end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    meta = mapping(value.get("meta_info"))
    ids = [one for one in items(value.get("output_ids")) if isinstance(one, int)]
    draft.output_ids = ids or draft.output_ids
    if "completion_tokens" in meta:
        draft.usage = usage(meta, "prompt_tokens", "completion_tokens", ("cached_tokens",))
    reason = meta.get("finish_reason")
    if reason is None:
        return
    if isinstance(reason, str):
        reason = {"type": reason}
    kind = mapping(reason).get("type")
    matched = mapping(reason).get("matched", meta.get("matched_stop"))
    draft.set_matched(matched)
    match kind:
        case "stop":
            # The id that matched may be the end-of-sequence token, which is a natural end.
            ending = (
                CapturedEnding.STOP if isinstance(matched, str) else CapturedEnding.NATURAL_OR_STOP
            )
        case "length":
            ending = CapturedEnding.LIMIT
        case "abort":
            ending = CapturedEnding.ERROR
        case _:
            ending = CapturedEnding.OTHER
    draft.set_reason(index, str(kind), ending)
    if draft.usage is None:
        draft.lacks_usage("meta_info has no completion_tokens.")
