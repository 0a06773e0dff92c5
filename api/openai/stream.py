"""A Chat Completions answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import Any, assert_never

from api.errors import ApiError, failure_of
from api.events import SseEvent
from api.extension import is_report_wanted, report_to_wire
from api.json_text import json_text
from api.openai.convert import allows_parallel_calls, call_to_wire, stop_to_wire, usage_to_wire
from api.openai.errors import error_to_wire
from api.openai.wire import ChatCompletionParams
from engine.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
    Usage,
)

DONE = SseEvent(None, "[DONE]")


class ChatEncoder:
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(
        self, *, completion_id: str, created: int, model: str, params: ChatCompletionParams
    ) -> None:
        self._allows_parallel_calls = allows_parallel_calls(params)
        self._reports = is_report_wanted(params.fullstop)
        options = params.stream_options
        self._includes_usage = options is not None and bool(options.include_usage)
        self._choices = params.n or 1
        self._started: set[int] = set()
        self._usages: dict[int, Usage] = {}
        self._head: dict[str, object] = {
            "id": completion_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        # What every delta has in common is serialised once.
        self._delta_head = json_text(self._head)[:-1] + ',"choices":[{"index":'
        usage = ',"usage":null' if self._includes_usage else ""
        self._delta_tail = f'}},"logprobs":null,"finish_reason":null}}]{usage}}}'

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the stream's next chunks; the last ones once every choice has finished."""
        out: list[SseEvent] = []
        for event in events:
            match event:
                case TextDelta():
                    self._add_text(out, choice, "content", event.text)
                case ThinkingDelta():
                    self._add_text(out, choice, "reasoning_content", event.text)
                case ToolCallDelta():
                    self._add_call(out, choice, event)
                case PromptProgress():
                    self._start(out, choice)
                case Finished():
                    self._finish(out, choice, event)
                case TokenTrace():
                    pass
                case _:
                    assert_never(event)
        return out

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the error as a chunk, after which the stream is closed."""
        _, body = error_to_wire(error, "")
        return [SseEvent(None, json_text(body))]

    def _start(self, out: list[SseEvent], choice: int) -> None:
        if choice not in self._started:
            self._started.add(choice)
            out.append(self._delta(choice, '"role":"assistant","content":""'))

    def _add_text(self, out: list[SseEvent], choice: int, key: str, text: str) -> None:
        if text:
            out.append(self._delta(choice, f'"{key}":{json_text(text)}'))

    def _add_call(self, out: list[SseEvent], choice: int, event: ToolCallDelta) -> None:
        if event.index == 0 or self._allows_parallel_calls:
            calls = json_text([{"index": event.index, **call_to_wire(event.call)}])
            out.append(self._delta(choice, f'"tool_calls":{calls}'))

    def _finish(self, out: list[SseEvent], choice: int, finished: Finished) -> None:
        failure = failure_of(finished)
        if failure is not None:
            out.extend(self.fail(failure))
            return
        self._start(out, choice)
        last: dict[str, Any] = {
            "index": choice,
            "delta": {},
            "logprobs": None,
            **stop_to_wire(finished.stop),
        }
        if self._reports:
            last["fullstop"] = report_to_wire(finished)
        out.append(self._chunk([last], None))
        self._usages[choice] = finished.usage
        if len(self._usages) < self._choices:
            return
        if self._includes_usage:
            in_order = [self._usages[index] for index in sorted(self._usages)]
            out.append(self._chunk([], usage_to_wire(in_order)))
        out.append(DONE)

    def _delta(self, choice: int, fields: str) -> SseEvent:
        return SseEvent(None, f'{self._delta_head}{choice},"delta":{{{fields}{self._delta_tail}')

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, object] | None) -> SseEvent:
        chunk: dict[str, object] = {**self._head, "choices": choices}
        if self._includes_usage:
            chunk["usage"] = usage
        return SseEvent(None, json_text(chunk))
