"""Reads answers of llama.cpp's own ``/completion``. Pure; any thread.

https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md#post-completion-given-a-prompt-it-returns-the-predicted-completion
"""

from typing import Any

from api.conformance.captures.draft import Draft, items, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, Severity

_ENDINGS = {
    "eos": CapturedEnding.NATURAL,
    "word": CapturedEnding.STOP,
    "limit": CapturedEnding.LIMIT,
}
REASONS = frozenset(_ENDINGS)
# Older servers send a boolean for each reason.
_FLAGS = {"stopped_word": "word", "stopped_limit": "limit", "stopped_eos": "eos"}


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take(draft, 0, body)
    if body.get("stop") is not True:
        draft.find(
            "stop_false", Severity.WARNING, 'The answer is whole, but does not say "stop": true.', 0
        )


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream; its last object has ``"stop": true``."""
    has_ended = False
    for index, value in draft.values(frames):
        if has_ended and value:
            draft.misplaced(index, 'An object comes after the one that says "stop": true.')
        _take(draft, index, value)
        has_ended |= value.get("stop") is True
    if draft.error is None and not has_ended:
        draft.lacks_end('The stream ends without an object that says "stop": true.')


def _take(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.model = value.get("model") or draft.model
    draft.add_text(index, value.get("content"))
    ids = [one for one in items(value.get("tokens")) if isinstance(one, int)]
    draft.output_ids += ids
    if "tokens_predicted" in value:
        draft.usage = usage(value, "tokens_evaluated", "tokens_predicted")
    reason = _reason(value)
    if reason is None:
        return
    # This API sends an empty string if no stop matched.
    draft.set_matched(value.get("stopping_word") or None)
    draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))
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
