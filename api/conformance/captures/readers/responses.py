"""Reads answers of the Responses API. Pure; any thread."""

from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

_LAST = ("response.completed", "response.incomplete", "response.failed")


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read a response that was not streamed."""
    for number, item in enumerate(map(mapping, items(body.get("output")))):
        match item.get("type"):
            case "message":
                for part in map(mapping, items(item.get("content"))):
                    draft.add_text(0, part.get("text"))
            case "reasoning":
                for part in items(item.get("content")) or items(item.get("summary")):
                    draft.add_thinking(0, mapping(part).get("text"))
            case "function_call":
                draft.add_call(number, item.get("name"), item.get("arguments"))
            case _:
                pass
    _end(draft, 0, body)


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream, checking the order of its events on the way."""
    _Stream(draft).read(frames)


class _Stream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._number: int | None = None
        self._has_started = False
        self._last: str | None = None
        self._items: set[str] = set()
        self._parts: set[tuple[str, str]] = set()

    def read(self, frames: tuple[Frame, ...]) -> None:
        draft = self._draft
        for index, frame in enumerate(frames):
            value = mapping(frame.value)
            kind = value.get("type") or frame.name
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            self._check_place(index, kind, value)
            if kind in _LAST:
                self._last = kind
                _end(draft, index, mapping(value.get("response")))
            elif kind == "error":
                draft.set_error(value.get("error") or value.get("message"))
            else:
                self._take(index, kind, value)
        if self._last is None and draft.error is None:
            draft.lacks_end(
                "The stream ends without response.completed; clients then raise an error."
            )

    def _check_place(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        if self._last is not None:
            draft.misplaced(index, f"{kind} comes after {self._last}.")
        if not self._has_started and kind not in ("response.created", "error"):
            draft.misplaced(index, f"{kind} comes before response.created.")
        self._has_started = True
        number = value.get("sequence_number")
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                draft.misplaced(index, f"sequence_number {number} follows {self._number}.")
            self._number = number

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        item = repr(value.get("output_index"))
        part = (item, repr(value.get("content_index")))
        match kind:
            case "response.created":
                draft.model = mapping(value.get("response")).get("model")
            case "response.output_item.added":
                self._items.add(item)
                added = mapping(value.get("item"))
                if added.get("type") == "function_call":
                    draft.add_call(item, added.get("name"), "")
            case "response.content_part.added":
                if item not in self._items:
                    draft.misplaced(index, "A part is added to an item that was not added.")
                self._parts.add(part)
            case "response.output_text.delta":
                if part not in self._parts:
                    draft.misplaced(index, "Text comes for a part that was not added.")
                draft.add_text(index, value.get("delta"))
            case "response.output_text.done":
                if value.get("text") != draft.text:
                    draft.find(
                        "text_differs",
                        Severity.ERROR,
                        "The text of output_text.done differs from the deltas before it.",
                        index,
                    )
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                draft.add_thinking(index, value.get("delta"))
            case "response.function_call_arguments.delta":
                draft.add_call(item, "", value.get("delta"))
            case _:
                pass


def _end(draft: Draft, index: int, response: dict[str, Any]) -> None:
    draft.model = response.get("model") or draft.model
    if isinstance(response.get("usage"), dict):
        draft.usage = _usage(response["usage"])
    elif response.get("status") != "failed":
        draft.lacks_usage("The response has no usage.")
    stop = mapping(mapping(response.get("fullstop")).get("stop"))
    if stop:
        draft.set_matched(stop.get("value"))
    status = response.get("status")
    if not isinstance(status, str):
        return
    if status == "failed":
        draft.set_error(response.get("error"))
    elif status == "incomplete":
        why = mapping(response.get("incomplete_details")).get("reason")
        ending = CapturedEnding.LIMIT if why == "max_output_tokens" else CapturedEnding.OTHER
        draft.set_reason(index, f"incomplete: {why}", ending)
    elif status == "completed":
        stopped = CapturedEnding.NATURAL_OR_STOP if draft.matched is None else CapturedEnding.STOP
        draft.set_reason(index, status, stopped)
    else:
        draft.set_reason(index, status, CapturedEnding.OTHER)


def _usage(value: Any) -> CapturedUsage:
    path = ("input_tokens_details", "cached_tokens")
    return usage(value, "input_tokens", "output_tokens", path, "total_tokens")
