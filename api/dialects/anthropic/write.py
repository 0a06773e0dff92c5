"""A Messages answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from api.dialects.anthropic.errors import error_to_wire
from api.dialects.anthropic.read import (
    SIGNATURE,
    allows_parallel_calls,
    call_id,
    shows_thinking,
    stop_to_wire,
    usage_to_wire,
)
from api.dialects.anthropic.requirements import wants_report
from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.shared.extension import report_to_wire
from api.transport.errors import ApiError, failure_of
from api.transport.events import SseEvent
from api.transport.json_text import json_text
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
    Usage,
)

PING = SseEvent("ping", '{"type":"ping"}')

_BlockKind = Literal["text", "thinking"]


class MessageEncoder:
    """Turns the events of one generation into the events of one message."""

    def __init__(
        self,
        *,
        message_id: str,
        model: str,
        params: MessageCreateParams,
        request_id: str,
    ) -> None:
        self._message_id = message_id
        self._model = model
        self._request_id = request_id
        self._shows_thinking = shows_thinking(params)
        self._allows_parallel_calls = allows_parallel_calls(params)
        self._reports = wants_report(params)
        self._has_started = False
        self._index = 0
        self._open: _BlockKind | None = None
        self._delta_head = ""

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the message's next events; the last ones once ``Finished`` is among them."""
        out: list[SseEvent] = []
        for event in events:
            match event:
                case TextDelta():
                    self._add_text(out, "text", event.text)
                case ThinkingDelta():
                    self._add_text(out, "thinking", event.text)
                case ToolCallDelta():
                    self._add_call(out, event)
                case PromptProgress():
                    self._start(out, Usage(event.total, event.cached))
                case Finished():
                    self._finish(out, event)
                case TokenTrace():
                    pass
                case _:
                    assert_never(event)
        return out

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the ``error`` event, after which the stream is closed."""
        _, body = error_to_wire(error, self._request_id)
        return [SseEvent("error", json_text(body))]

    def _start(self, out: list[SseEvent], usage: Usage) -> None:
        if self._has_started:
            return
        self._has_started = True
        message: dict[str, object] = {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_to_wire(usage),
        }
        out.append(_event("message_start", message=message))

    def _add_text(self, out: list[SseEvent], kind: _BlockKind, text: str) -> None:
        if not text:
            return
        if self._open is not kind:
            self._open_block(out, kind)
        if kind == "thinking" and not self._shows_thinking:
            return
        out.append(SseEvent("content_block_delta", f"{self._delta_head}{json_text(text)}}}}}"))

    def _open_block(self, out: list[SseEvent], kind: _BlockKind) -> None:
        self._close_block(out)
        self._open = kind
        block: dict[str, str] = {"type": kind, kind: ""}
        if kind == "thinking":
            block["signature"] = ""
        out.append(_event("content_block_start", index=self._index, content_block=block))
        # What every delta of this block has in common is serialised once.
        self._delta_head = (
            f'{{"type":"content_block_delta","index":{self._index},'
            f'"delta":{{"type":"{kind}_delta","{kind}":'
        )

    def _close_block(self, out: list[SseEvent]) -> None:
        if self._open is None:
            return
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": SIGNATURE}
            out.append(_event("content_block_delta", index=self._index, delta=delta))
        out.append(_event("content_block_stop", index=self._index))
        self._open = None
        self._index += 1

    def _add_call(self, out: list[SseEvent], event: ToolCallDelta) -> None:
        if event.index > 0 and not self._allows_parallel_calls:
            return
        self._close_block(out)
        block = {
            "type": "tool_use",
            "id": call_id(event.call),
            "name": event.call.name,
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": event.call.arguments}
        out.append(_event("content_block_start", index=self._index, content_block=block))
        out.append(_event("content_block_delta", index=self._index, delta=delta))
        out.append(_event("content_block_stop", index=self._index))
        self._index += 1

    def _finish(self, out: list[SseEvent], finished: Finished) -> None:
        failure = failure_of(finished)
        if failure is not None:
            out.extend(self.fail(failure))
            return
        self._start(out, finished.usage)
        if self._index == 0 and self._open is None:
            self._open_block(out, "text")
        self._close_block(out)
        stop_reason, stop_sequence = stop_to_wire(finished.stop)
        delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        extra = {"fullstop": report_to_wire(finished)} if self._reports else {}
        usage = usage_to_wire(finished.usage)
        out.append(_event("message_delta", delta=delta, usage=usage, **extra))
        out.append(_event("message_stop"))


def _event(name: str, **fields: object) -> SseEvent:
    return SseEvent(name, json_text({"type": name, **fields}))
