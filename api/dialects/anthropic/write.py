"""Writes the answers of the Messages API, whole and as events. Pure but for an encoder's state.

https://docs.claude.com/en/docs/build-with-claude/streaming
"""

import json
from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

from api.dialects.anthropic.read import (
    allows_parallel_calls,
    only_warms,
    shows_thinking,
    wants_report,
)
from api.dialects.anthropic.wire import (
    AnswerBlock,
    MessageAnswer,
    MessageCreateParams,
    MessageError,
    MessageErrorAnswer,
    MessageErrorType,
    MessageUsage,
    StopReason,
)
from api.dialects.shared.answers import AnswerEncoder, not_an_ending, report_to_wire
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.encoding import json_text, sse_event
from api.dialects.shared.sealed import REASONING_MARK, seal_text
from api.service.errors import ApiError, ContextOverflow, ErrorKind
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)

PING = sse_event('{"type":"ping"}', "ping")
# Thinking blocks must carry a signature, which clients send back. Ours proves nothing; that of
# reasoning which is not shown holds its text.
SIGNATURE = "unsigned"
# What the ids of tool calls begin with.
CALL_PREFIX = "toolu_"

_BlockKind = Literal["text", "thinking", "input_json"]
_TYPES: Mapping[ErrorKind, MessageErrorType] = {
    ErrorKind.INVALID_REQUEST: "invalid_request_error",
    ErrorKind.AUTHENTICATION: "authentication_error",
    ErrorKind.PERMISSION: "permission_error",
    ErrorKind.NOT_FOUND: "not_found_error",
    ErrorKind.METHOD_NOT_ALLOWED: "invalid_request_error",
    ErrorKind.TIMEOUT: "timeout_error",
    ErrorKind.TOO_LARGE: "request_too_large",
    ErrorKind.UNSUPPORTED_ENCODING: "invalid_request_error",
    ErrorKind.RATE_LIMITED: "rate_limit_error",
    ErrorKind.NO_MODEL: "overloaded_error",
    ErrorKind.OVERLOADED: "overloaded_error",
    ErrorKind.UNAVAILABLE: "api_error",
    ErrorKind.INTERNAL: "api_error",
}


def stop_to_wire(stop: StopInfo) -> tuple[StopReason, str | None]:
    """Return ``stop_reason`` and ``stop_sequence``; the latter only with "stop_sequence"."""
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_TOKEN:
            return "end_turn", None
        case StopKind.STOP_STRING:
            return "stop_sequence", str(stop.value)
        case StopKind.REPETITION | StopKind.MAX_TOKENS | StopKind.MEMORY_FULL:
            return "max_tokens", None
        case StopKind.CONTEXT_FULL:
            return "model_context_window_exceeded", None
        case StopKind.TOOL_CALL:
            return "tool_use", None
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def usage_to_wire(usage: Usage) -> MessageUsage:
    """Return ``usage``; cached tokens are counted separately from the input."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.thinking_tokens},
    }


def write_message(
    answers: Sequence[Collected], params: MessageCreateParams, head: Head
) -> MessageAnswer:
    """Return the whole answer."""
    [(events, finished)] = answers
    message = _message(head, usage_to_wire(finished.usage))
    message["content"] = [] if only_warms(params) else _content(events, params)
    message["stop_reason"], message["stop_sequence"] = stop_to_wire(finished.stop)
    if wants_report(params):
        message["fullstop"] = report_to_wire(finished, head.no_effect)
    return message


def _message(head: Head, usage: MessageUsage) -> MessageAnswer:
    return {
        "id": head.answer_id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _content(events: Sequence[Event], params: MessageCreateParams) -> list[AnswerBlock]:
    blocks: list[AnswerBlock] = []
    for event in events:
        match event:
            case ThinkingDelta() if shows_thinking(params):
                blocks.append({"type": "thinking", "thinking": event.text, "signature": SIGNATURE})
            case ThinkingDelta():
                signature = seal_text(event.text, REASONING_MARK)
                blocks.append({"type": "thinking", "thinking": "", "signature": signature})
            case TextDelta():
                blocks.append({"type": "text", "text": event.text})
            case ToolCallCompleted() if event.index == 0 or allows_parallel_calls(params):
                block = _call(event.call.id, event.call.name)
                block["input"] = json.loads(event.call.arguments)
                blocks.append(block)
            case _:
                pass
    return blocks or [{"type": "text", "text": ""}]


def _call(call_id: str, name: str) -> AnswerBlock:
    return {"type": "tool_use", "id": f"{CALL_PREFIX}{call_id}", "name": name, "input": {}}


class MessageEncoder(AnswerEncoder):
    """Turns the events of one generation into the events of one message, in this order.

    ``message_start``; for each block of text, reasoning or a call ``content_block_start``,
    ``content_block_delta`` (several), ``content_block_stop``; ``message_delta``; ``message_stop``.
    ``ping`` comes anywhere, and ``error`` instead of the remaining events.
    """

    def __init__(self, params: MessageCreateParams, head: Head) -> None:
        super().__init__()
        self._head = head
        self._shows_thinking = shows_thinking(params)
        # The reasoning of the open block that is not shown.
        self._hidden: list[str] = []
        self._allows_parallel_calls = allows_parallel_calls(params)
        self._reports = wants_report(params)
        self._has_started = False
        self._index = 0
        self._open: _BlockKind | None = None
        # The call whose block is open.
        self._call_id: str | None = None

    def keepalive(self) -> str:
        return PING

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start(Usage(progress.total, progress.cached))

    def _start(self, usage: Usage) -> None:
        if not self._has_started:
            self._has_started = True
            message = _message(self._head, usage_to_wire(usage))
            self._event({"type": "message_start", "message": message})

    def _text(self, text: str, choice: int) -> None:
        self._add_text("text", text)

    def _thinking(self, text: str, choice: int) -> None:
        self._add_text("thinking", text)

    def _add_text(self, kind: Literal["text", "thinking"], text: str) -> None:
        if self._open is not kind:
            self._open_block(kind)
        if kind == "text" or self._shows_thinking:
            self._send_delta(text, f"{kind}_delta", kind)
        else:
            self._hidden.append(text)

    def _send_delta(self, text: str, kind: str, field: str) -> None:
        delta = {"type": kind, field: text}
        self._event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _open_block(self, kind: Literal["text", "thinking"]) -> None:
        self._close_block()
        self._open = kind
        block: AnswerBlock = {"type": "text", "text": ""}
        if kind == "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        self._event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close_block(self) -> None:
        if self._open is None:
            return
        if self._open == "thinking":
            hidden = "".join(self._hidden)
            self._hidden.clear()
            signature = seal_text(hidden, REASONING_MARK) if hidden else SIGNATURE
            self._send_delta(signature, "signature_delta", "signature")
        self._event({"type": "content_block_stop", "index": self._index})
        self._index += 1
        self._open = None

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._call_id = None
        if call.index > 0 and not self._allows_parallel_calls:
            return
        self._close_block()
        self._call_id, self._open = call.call_id, "input_json"
        block = _call(call.call_id, call.name)
        self._event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        if self._call_id == more.call_id:
            self._send_delta(more.text, "input_json_delta", "partial_json")

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        self._end_call(call.call_id)

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        self._end_call(call.call.id)

    def _end_call(self, call_id: str) -> None:
        """Close the block of a call, unless another call has closed it already."""
        if self._call_id == call_id:
            self._call_id = None
            self._close_block()

    def _end(self, finished: Finished, choice: int) -> None:
        self._start(finished.usage)
        if self._index == 0 and self._open is None:
            self._open_block("text")
        self._close_block()
        reason, sequence = stop_to_wire(finished.stop)
        end: dict[str, object] = {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": usage_to_wire(finished.usage),
        }
        if self._reports:
            end["fullstop"] = report_to_wire(finished, self._head.no_effect)
        self._event(end)
        self._event({"type": "message_stop"})

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._event(error_to_wire(error, self._head.request_id)[1])

    def _event(self, event: Mapping[str, object]) -> None:
        self._send(sse_event(json_text(event), str(event["type"])))


# https://docs.claude.com/en/api/errors


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, MessageErrorAnswer]:
    """Return the status and the body of an error answer, which is also the ``error`` event."""
    type_, path = _TYPES[error.kind], ".".join(str(part) for part in error.field)
    message = f"{path}: {error.message}" if path else error.message
    if isinstance(error, ContextOverflow):
        # Clients look for exactly this text.
        message = f"prompt is too long: {error.prompt_tokens} tokens > {error.max_tokens} maximum"
    inner: MessageError = {"type": type_, "message": message}
    if error.details is not None:
        inner["details"] = dict(error.details)
    status = 529 if type_ == "overloaded_error" else error.kind.status
    return status, {"type": "error", "error": inner, "request_id": request_id}
