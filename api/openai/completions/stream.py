"""A Completions answer as server-sent events.

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
from api.openai.chunks import Chunks
from api.openai.completions.convert import choices_per_prompt, echo_of, logprobs_to_wire
from api.openai.completions.wire import CompletionParams
from api.openai.endings import stop_to_wire
from api.openai.logprobs import AnswerToken, TokenAligner, TokenTexts
from engine.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
)


class CompletionEncoder:
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
        params: CompletionParams,
        texts: TokenTexts | None = None,
    ) -> None:
        self._params = params
        self._reports = is_report_wanted(params.fullstop)
        self._texts = texts
        choices = len(params.prompt) * choices_per_prompt(params)
        self._aligners = [] if params.logprobs is None else [TokenAligner() for _ in range(choices)]
        self._offsets = [0] * choices
        self._started: set[int] = set()
        options = params.stream_options
        self._chunks = Chunks(
            {
                "id": completion_id,
                "object": "text_completion",
                "created": created,
                "model": model,
            },
            choices=choices,
            per_prompt=choices_per_prompt(params),
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
                        self._add(out, choice, event.text)
                case ThinkingDelta():
                    self._add(out, choice, "", reasoning_content=event.text)
                case ToolCallDelta():
                    call = {"index": event.index, **call_to_wire(event.call)}
                    self._add(out, choice, "", tool_calls=[call])
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
            self._add(out, choice, echo_of(self._params, choice))

    def _add(self, out: list[SseEvent], choice: int, text: str, **extra: object) -> None:
        if text or any(extra.values()):
            more = f",{json_text(extra)[1:-1]}" if extra else ""
            fields = f'"text":{json_text(text)}{more},"logprobs":null'
            out.append(self._chunks.delta(choice, fields))

    def _add_tokens(
        self, out: list[SseEvent], choice: int, text: str, tokens: list[AnswerToken]
    ) -> None:
        if not text and not tokens:
            return
        count = self._params.logprobs or 0
        logprobs = logprobs_to_wire(tokens, self._offsets[choice], count, self._texts)
        self._offsets[choice] += sum(len(token.text) for token in tokens)
        fields = f'"text":{json_text(text)},"logprobs":{json_text(logprobs)}'
        out.append(self._chunks.delta(choice, fields))

    def _finish(self, out: list[SseEvent], choice: int, finished: Finished) -> None:
        failure = failure_of(finished)
        if failure is not None:
            out.extend(self.fail(failure))
            return
        self._start(out, choice)
        if self._aligners:
            self._add_tokens(out, choice, *self._aligners[choice].finish())
        last: dict[str, object] = {"text": "", "logprobs": None, **stop_to_wire(finished.stop)}
        if self._reports:
            last["fullstop"] = report_to_wire(finished)
        out += self._chunks.last(choice, last, finished.usage)
