"""A Chat Completions answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import assert_never

from api.errors import ApiError, failure_of
from api.events import SseEvent
from api.extension import is_report_wanted, report_to_wire
from api.json_text import json_text
from api.openai.calls import call_to_wire
from api.openai.chat.convert import allows_parallel_calls, logprobs_to_wire
from api.openai.chat.wire import ChatCompletionParams
from api.openai.chunks import Chunks
from api.openai.endings import stop_to_wire
from api.openai.logprobs import AnswerToken, TokenAligner, TokenTexts, entries_to_wire
from engine.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
)


class ChatEncoder:
    """Turns the events of one request's generations into the chunks of one stream.

    Args:
        completion_id: The answer's id.
        created: Unix time, in seconds.
        model: The name of the model that answers.
        params: The request.
        texts: What token ids stand for, where likelihoods are asked for.
    """

    def __init__(
        self,
        *,
        completion_id: str,
        created: int,
        model: str,
        params: ChatCompletionParams,
        texts: TokenTexts | None = None,
    ) -> None:
        self._allows_parallel_calls = allows_parallel_calls(params)
        self._reports = is_report_wanted(params.fullstop)
        self._texts = texts
        choices = params.n or 1
        self._aligners = [TokenAligner() for _ in range(choices)] if params.logprobs else []
        self._started: set[int] = set()
        options = params.stream_options
        self._chunks = Chunks(
            {
                "id": completion_id,
                "object": "chat.completion.chunk",
                "created": created,
                "model": model,
            },
            choices=choices,
            per_prompt=choices,
            includes_usage=options is not None and bool(options.include_usage),
        )

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the stream's next chunks; the last ones once every choice has finished."""
        out: list[SseEvent] = []
        for event in events:
            match event:
                case TextDelta():
                    if self._aligners:
                        self._aligners[choice].add_text(event.text)
                    else:
                        self._add_text(out, choice, "content", event.text)
                case ThinkingDelta():
                    self._add_text(out, choice, "reasoning_content", event.text)
                case ToolCallDelta():
                    self._add_call(out, choice, event)
                case TokenTrace():
                    if self._aligners:
                        self._add_tokens(out, choice, *self._aligners[choice].take(event))
                case PromptProgress():
                    self._start(out, choice)
                case Finished():
                    self._finish(out, choice, event)
                case _:
                    assert_never(event)
        return out

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the error as a chunk, after which the stream is closed."""
        return self._chunks.fail(error)

    def _start(self, out: list[SseEvent], choice: int) -> None:
        if choice not in self._started:
            self._started.add(choice)
            out.append(self._delta(choice, '"role":"assistant","content":""'))

    def _add_text(self, out: list[SseEvent], choice: int, key: str, text: str) -> None:
        if text:
            out.append(self._delta(choice, f'"{key}":{json_text(text)}'))

    def _add_tokens(
        self, out: list[SseEvent], choice: int, text: str, tokens: list[AnswerToken]
    ) -> None:
        if text or tokens:
            logprobs = json_text(logprobs_to_wire(entries_to_wire(tokens, self._texts)))
            out.append(self._delta(choice, f'"content":{json_text(text)}', logprobs))

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
        if self._aligners:
            self._add_tokens(out, choice, *self._aligners[choice].finish())
        last: dict[str, object] = {"delta": {}, "logprobs": None, **stop_to_wire(finished.stop)}
        if self._reports:
            last["fullstop"] = report_to_wire(finished)
        out += self._chunks.last(choice, last, finished.usage)

    def _delta(self, choice: int, fields: str, logprobs: str = "null") -> SseEvent:
        return self._chunks.delta(choice, f'"delta":{{{fields}}},"logprobs":{logprobs}')
