"""Reads answers of Chat Completions and of Completions. Pure; any thread."""

from typing import Any

from api.conformance.captures.choice import ChoiceDraft
from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

_ENDINGS = {
    "stop": CapturedEnding.NATURAL_OR_STOP,
    "eos": CapturedEnding.NATURAL,
    "length": CapturedEnding.LIMIT,
    "tool_calls": CapturedEnding.TOOL,
    "function_call": CapturedEnding.TOOL,
    "content_filter": CapturedEnding.OTHER,
}
# Names of the field in which open servers report the stop that matched.
_MATCHED = ("matched_stop", "stop_reason", "stopping_word")


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.model = body.get("model")
    for choice in map(mapping, items(body.get("choices"))):
        into = draft.choice(choice.get("index"))
        _add(into, 0, mapping(choice.get("message")))
        into.add_text(0, choice.get("text"))
        _end(into, 0, choice)
    if isinstance(body.get("usage"), dict):
        draft.usage = _usage(body["usage"])
    else:
        draft.lacks_usage("The answer has no usage.")


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read the chunks of a stream, checking their order on the way."""
    names_usage = False
    for index, value in draft.values_until_done(frames, "A chunk"):
        draft.model = draft.model or value.get("model")
        names_usage |= "usage" in value
        if isinstance(value.get("usage"), dict):
            draft.usage = _usage(value["usage"])
        for choice in map(mapping, items(value.get("choices"))):
            into = draft.choice(choice.get("index"))
            # Some servers send the last text and the reason in one chunk, so read the text first.
            _add(into, index, mapping(choice.get("delta")))
            into.add_text(index, choice.get("text"))
            _end(into, index, choice)
    if draft.error is not None:
        return
    if draft.usage is None and names_usage and not draft.is_dump:
        draft.lacks_usage("The stream announces usage by usage: null, but never sends it.")
    elif draft.usage is None:
        draft.lacks_usage(
            "The stream has no usage (request it with stream_options.include_usage).", Severity.NOTE
        )


def _add(into: ChoiceDraft, index: int, part: dict[str, Any]) -> None:
    content = part.get("content")
    if isinstance(content, list):
        content = "".join(str(mapping(piece).get("text", "")) for piece in content)
    into.add_text(index, content)
    into.add_thinking(index, part.get("reasoning_content") or part.get("reasoning"))
    for number, call in enumerate(map(mapping, items(part.get("tool_calls")))):
        _add_call(into, call.get("index", number), call)
    # The API's older form of tool calls.
    if isinstance(part.get("function_call"), dict):
        _add_call(into, "function_call", {"function": part["function_call"]})


def _add_call(into: ChoiceDraft, key: object, call: dict[str, Any]) -> None:
    custom = mapping(call.get("custom"))
    if custom:
        # Custom tools take any text, not only JSON.
        into.add_call(key, custom.get("name"), "{}" if custom.get("name") else "")
        return
    function = mapping(call.get("function"))
    into.add_call(key, function.get("name"), function.get("arguments"))


def _end(into: ChoiceDraft, index: int, choice: dict[str, Any]) -> None:
    reason = choice.get("finish_reason")
    if not isinstance(reason, str):
        return
    for name in _MATCHED:
        if name in choice:
            into.set_matched(choice[name])
            break
    ending = _ENDINGS.get(reason, CapturedEnding.OTHER)
    if ending is CapturedEnding.NATURAL_OR_STOP and into.matched is not None:
        ending = CapturedEnding.STOP
    into.set_reason(index, reason, ending)


def _usage(value: Any) -> CapturedUsage:
    path = ("prompt_tokens_details", "cached_tokens")
    return usage(value, "prompt_tokens", "completion_tokens", path, "total_tokens")
