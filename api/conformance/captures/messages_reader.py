"""Reads answers of the Messages API, and checks the order of a stream's events on the way.

Pure; any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import Draft, read_usage
from api.conformance.captures.frames import Frame, mapping, objects
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
MESSAGES_REASONS = frozenset(_ENDINGS)
MESSAGES_EVENTS = frozenset(
    {
        *("message_start", "message_delta", "message_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
    }
)
# The vendor's clients add these to the events of the stream.
_CLIENT_EVENTS = frozenset({"text", "input_json", "thinking", "signature", "citation"})
# The vendor's clients fail on a delta of another type than its block.
_DELTA_BLOCKS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


def read_messages(draft: Draft) -> None:
    """Read a message, or the events of a stream."""
    if draft.is_streamed:
        _MessagesStream(draft).read()
        return
    body = mapping(draft.framed.frames[0].value)
    draft.check_form(0, body)
    draft.model, draft.answer_id = body.get("model"), body.get("id")
    for number, block in enumerate(objects(body.get("content"))):
        kind = block.get("type")
        if kind == "thinking":
            draft.add_thinking(0, block.get("thinking"))
        elif kind == "tool_use":
            if isinstance(block.get("input"), str):
                draft.report_arguments_form(0, "an object")
            arguments = json.dumps(block.get("input"), ensure_ascii=False)
            draft.add_call(number, block.get("name"), arguments)
        else:
            draft.add_text(0, block.get("text"))
    _read_reason(draft, 0, body)
    if "usage" in body:
        draft.usage = _read_usage(body["usage"])
    else:
        draft.report_missing_usage("The message has no usage.", Severity.ERROR)


class _MessagesStream:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._has_started = self._has_ended = self._has_delta = False
        self._open: list[int] = []
        self._blocks: dict[int, str] = {}
        self._block_count = 0

    def read(self) -> None:
        draft = self._draft
        for index, frame in enumerate(draft.framed.frames):
            value = mapping(frame.value)
            kind = value.get("type")
            kind = kind if isinstance(kind, str) and kind else frame.name
            if frame.is_done_mark:
                continue
            self._check_name(index, frame, kind)
            if not isinstance(kind, str) or (draft.is_dump and kind in _CLIENT_EVENTS):
                continue
            draft.check_form(index, value)
            if self._has_ended:
                draft.report_order(index, f"{kind} comes after message_stop.")
            elif not self._has_started and kind not in ("message_start", "ping", "error"):
                draft.report_order(index, f"{kind} comes before message_start.")
            self._take(index, kind, value)
        if draft.error is None and self._open:
            message = f"The stream ends while block {self._open[-1]} is open."
            draft.find("stream_truncated", message)
        elif draft.error is None and not self._has_ended:
            draft.find(
                "end_marker_missing",
                "The stream ends without message_stop; some clients lose the reason.",
            )

    def _check_name(self, index: int, frame: Frame, kind: object) -> None:
        draft = self._draft
        if not frame.is_json or draft.is_dump:
            return
        if frame.name is None:
            message = "An event has no event: line; the vendor's clients drop it."
            draft.find("event_name_missing", message, index)
        draft.check_event_name(index, kind)

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        match kind:
            case "message_start":
                if self._has_started:
                    draft.report_order(index, "message_start comes twice.")
                self._has_started = True
                message = mapping(value.get("message"))
                draft.model, draft.answer_id = message.get("model"), message.get("id")
                draft.usage = _read_usage(message.get("usage")) if "usage" in message else None
                if draft.usage is None:
                    draft.report_missing_usage(
                        "message_start has no usage; clients fail.", Severity.ERROR
                    )
            case "content_block_start":
                self._start_block(index, value)
            case "content_block_delta":
                self._add_delta(index, value)
            case "content_block_stop":
                if value.get("index") in self._open:
                    self._open.remove(value["index"])
                else:
                    draft.report_order(index, "content_block_stop closes a block that is not open.")
                    self._open.clear()
            case "message_delta":
                self._has_delta = True
                if self._open:
                    draft.report_order(index, "message_delta comes while a block is still open.")
                _read_reason(draft, index, mapping(value.get("delta")))
                self._read_last_usage(value)
            case "message_stop":
                if not self._has_delta:
                    draft.report_order(index, "message_stop comes before message_delta.")
                self._has_ended = True
            case "error":
                draft.set_error(value.get("error"))
            case _:
                pass

    def _start_block(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if self._open:
            draft.report_order(index, "A block starts while another is still open.")
        elif number != self._block_count:
            expected = self._block_count
            draft.report_order(index, f"Block {number} starts where block {expected} is expected.")
        if self._has_delta:
            draft.report_order(index, "A block starts after message_delta.")
        number = number if isinstance(number, int) else self._block_count
        self._open.append(number)
        self._block_count += 1
        block = mapping(value.get("content_block"))
        draft.add_text(index, block.get("text"))
        draft.add_thinking(index, block.get("thinking"))
        # The vendor itself runs the tools of other types, such as server_tool_use.
        self._blocks[number] = str(block.get("type"))
        if self._blocks[number] == "tool_use":
            draft.add_call(number, block.get("name"), "")

    def _add_delta(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if number not in self._open:
            draft.report_order(index, f"A delta belongs to block {number}, which is not open.")
        delta = mapping(value.get("delta"))
        kind = delta.get("type")
        due = _DELTA_BLOCKS.get(kind) if isinstance(kind, str) else None
        block = self._blocks.get(number, "") if isinstance(number, int) else ""
        # The vendor's other tools have such blocks, too: server_tool_use, mcp_tool_use.
        is_alike = block == due or (due == "tool_use" and block.endswith("tool_use"))
        if due and block and not is_alike:
            draft.report_order(index, f"A {kind} belongs to block {number}, which is {block}.")
            return
        draft.add_text(index, delta.get("text"))
        draft.add_thinking(index, delta.get("thinking"))
        if "partial_json" in delta and block == "tool_use":
            draft.add_call(number, "", delta["partial_json"])

    def _read_last_usage(self, value: dict[str, Any]) -> None:
        draft = self._draft
        if "usage" not in value:
            message = "message_delta has no usage; clients count no output tokens."
            draft.report_missing_usage(message, Severity.ERROR)
            return
        begun, ended = draft.usage, _read_usage(value["usage"])
        if begun is not None:
            for name in ("input_tokens", "output_tokens"):
                first, last = getattr(begun, name), getattr(ended, name)
                if first is not None and last is not None and 0 <= last < first:
                    message = (
                        f"usage.{name} falls from {first} in message_start to {last} in "
                        "message_delta, where counts are cumulative."
                    )
                    draft.find("usage_falls", message)
            if ended.input_tokens is None:
                cached = begun.cached_tokens
                ended = replace(ended, input_tokens=begun.input_tokens, cached_tokens=cached)
        draft.usage = ended


def _read_reason(draft: Draft, index: int, holder: dict[str, Any]) -> None:
    draft.set_matched(holder.get("stop_sequence"))
    reason = holder.get("stop_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _ENDINGS.get(reason, CapturedEnding.OTHER))
    else:
        draft.check_reason_kept(index, "A message_delta")


def _read_usage(value: Any) -> CapturedUsage:
    return read_usage(value, "input_tokens", "output_tokens", "cache_read_input_tokens")
