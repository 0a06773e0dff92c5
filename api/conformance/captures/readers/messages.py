"""Reads answers of the Messages API. Pure; any thread."""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.framing import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

_ENDINGS = {
    "end_turn": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "max_tokens": CapturedEnding.LIMIT,
    "model_context_window_exceeded": CapturedEnding.LIMIT,
    "tool_use": CapturedEnding.TOOL,
    "pause_turn": CapturedEnding.OTHER,
    "refusal": CapturedEnding.OTHER,
}
REASONS = frozenset(_ENDINGS)
_KNOWN = {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
}
# The vendor's clients add these to the events of the stream.
_MADE_BY_CLIENTS = frozenset({"text", "input_json", "thinking", "signature", "citation"})
NAMES = frozenset(_KNOWN - {"error", "ping"})


def read_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read a message that was not streamed."""
    draft.model = body.get("model")
    for number, block in enumerate(map(mapping, items(body.get("content")))):
        kind = block.get("type")
        if kind == "thinking":
            draft.add_thinking(0, block.get("thinking"))
        elif kind == "tool_use":
            _add_call(draft, number, block)
        else:
            draft.add_text(0, block.get("text"))
    _end(draft, 0, body)
    if "usage" in body:
        draft.usage = _usage(body["usage"])
    else:
        draft.lacks_usage("The message has no usage.")


def read_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream, checking the order of its events on the way."""
    _Stream(draft).read(frames)


class _Stream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._has_started = False
        self._has_ended = False
        self._has_delta = False
        self._open: int | None = None
        self._blocks = 0

    def read(self, frames: tuple[Frame, ...]) -> None:
        for index, frame in enumerate(frames):
            value = mapping(frame.value)
            kind = value.get("type") or frame.name
            self._check_name(index, frame, kind)
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            if self._draft.is_dump and kind in _MADE_BY_CLIENTS:
                continue
            if self._has_ended:
                self._draft.misplaced(index, f"{kind} comes after message_stop.")
            elif not self._has_started and kind not in ("message_start", "ping", "error"):
                self._draft.misplaced(index, f"{kind} comes before message_start.")
            self._take(index, kind, value)
        self._close()

    def _check_name(self, index: int, frame: Frame, kind: object) -> None:
        draft = self._draft
        if frame.is_done_mark or not frame.is_json or draft.is_dump:
            return
        if frame.name is None:
            draft.find(
                "event_name_missing",
                Severity.ERROR,
                "An event has no event: line; the vendor's clients drop it.",
                index,
            )
        elif frame.name != kind:
            draft.find(
                "event_name_differs",
                Severity.ERROR,
                f"The event: line says {frame.name}, the data says {kind}.",
                index,
            )
        if isinstance(kind, str) and kind not in _KNOWN:
            draft.find(
                "unknown_event",
                Severity.WARNING,
                f"{kind} is not an event of this API; some clients refuse the stream.",
                index,
            )

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        match kind:
            case "message_start":
                if self._has_started:
                    draft.misplaced(index, "message_start comes twice.")
                self._has_started = True
                message = mapping(value.get("message"))
                draft.model = message.get("model")
                draft.usage = _usage(message.get("usage")) if "usage" in message else None
                if "usage" not in message:
                    draft.lacks_usage("message_start has no usage; clients fail without it.")
            case "content_block_start":
                self._start_block(index, value)
            case "content_block_delta":
                self._add(index, value)
            case "content_block_stop":
                if self._open is None or value.get("index") != self._open:
                    draft.misplaced(index, "content_block_stop closes a block that is not open.")
                self._open = None
            case "message_delta":
                self._has_delta = True
                if self._open is not None:
                    draft.misplaced(index, "message_delta comes while a block is still open.")
                _end(draft, index, mapping(value.get("delta")))
                self._count(value)
            case "message_stop":
                if not self._has_delta:
                    draft.misplaced(index, "message_stop comes before message_delta.")
                self._has_ended = True
            case "error":
                draft.set_error(value.get("error"))
            case _:
                pass

    def _start_block(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if self._open is not None:
            draft.misplaced(index, "A block starts while another is still open.")
        elif number != self._blocks:
            draft.misplaced(index, f"Block {number} starts where block {self._blocks} is expected.")
        if self._has_delta:
            draft.misplaced(index, "A block starts after message_delta.")
        self._open = number if isinstance(number, int) else self._blocks
        self._blocks += 1
        block = mapping(value.get("content_block"))
        draft.add_text(index, block.get("text"))
        draft.add_thinking(index, block.get("thinking"))
        if block.get("type") == "tool_use":
            draft.add_call(self._open, block.get("name"), "")

    def _add(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if self._open is None or number != self._open:
            draft.misplaced(index, f"A delta belongs to block {number}, which is not open.")
        delta = mapping(value.get("delta"))
        draft.add_text(index, delta.get("text"))
        draft.add_thinking(index, delta.get("thinking"))
        if "partial_json" in delta:
            draft.add_call(number, "", delta["partial_json"])

    def _count(self, value: dict[str, Any]) -> None:
        draft = self._draft
        if "usage" not in value:
            draft.lacks_usage("message_delta has no usage; clients count no output tokens.")
            return
        begun, ended = draft.usage, _usage(value["usage"])
        if begun is not None and ended.input_tokens is None:
            ended = replace(
                ended, input_tokens=begun.input_tokens, cached_tokens=begun.cached_tokens
            )
        draft.usage = ended

    def _close(self) -> None:
        draft = self._draft
        if draft.error is not None:
            return
        if self._open is not None:
            draft.find(
                "stream_truncated",
                Severity.ERROR,
                f"The stream ends while block {self._open} is open.",
            )
        elif not self._has_ended:
            draft.lacks_end("The stream ends without message_stop; some clients lose the reason.")


def _end(draft: Draft, index: int, holder: dict[str, Any]) -> None:
    draft.set_matched(holder.get("stop_sequence"))
    reason = holder.get("stop_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))


def _usage(value: Any) -> CapturedUsage:
    return usage(value, "input_tokens", "output_tokens", ("cache_read_input_tokens",))


def _add_call(draft: Draft, key: int, block: dict[str, Any]) -> None:
    draft.add_call(key, block.get("name"), json.dumps(block.get("input"), ensure_ascii=False))
