"""The stream of an answer of several choices: what Chat Completions and Completions share.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import assert_never

from api.dialects.openai.chunks import Chunks
from api.dialects.openai.endings import stop_to_wire
from api.dialects.openai.logprobs import answer_tokens
from api.dialects.shared.extension import report_to_wire
from api.transport.errors import ApiError, failure_of
from api.transport.events import SseEvent
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenSpan,
    TokenTrace,
    ToolCallDelta,
)


class ChoicesEncoder(ABC):
    """Turns the events of one request's generations into the chunks of one stream.

    An API says what a chunk holds: its methods return the fields of one choice as JSON text
    without its braces, or None where nothing is to be said.

    Args:
        chunks: Wraps choices into chunks.
        choices: How many choices the stream has.
        has_logprobs: Whether likelihoods go with the text.
        reports: Whether the last chunk of a choice holds the stop record.
    """

    def __init__(self, chunks: Chunks, *, choices: int, has_logprobs: bool, reports: bool) -> None:
        self._chunks = chunks
        self._reports = reports
        self._has_logprobs = has_logprobs
        # Text that waits for the trace of the token that brought it.
        self._texts_due = [""] * choices
        self._started: set[int] = set()

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the stream's next chunks; the last ones once every choice has finished."""
        out: list[SseEvent] = []
        for event in events:
            match event:
                case TextDelta():
                    if self._has_logprobs:
                        self._texts_due[choice] += event.text
                    elif event.text:
                        self._add(out, choice, self._text(event.text))
                case ThinkingDelta():
                    if event.text:
                        self._add(out, choice, self._thinking(event.text))
                case ToolCallDelta():
                    self._add(out, choice, self._call(event))
                case TokenTrace():
                    if self._has_logprobs:
                        self._add_tokens(out, choice, event)
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

    @abstractmethod
    def _beginning(self, choice: int) -> str | None: ...

    @abstractmethod
    def _text(self, text: str) -> str: ...

    @abstractmethod
    def _thinking(self, text: str) -> str | None: ...

    @abstractmethod
    def _call(self, event: ToolCallDelta) -> str | None: ...

    @abstractmethod
    def _tokens(self, choice: int, text: str, tokens: list[TokenSpan]) -> str: ...

    @abstractmethod
    def _end(self) -> dict[str, object]: ...

    def _start(self, out: list[SseEvent], choice: int) -> None:
        if choice not in self._started:
            self._started.add(choice)
            self._add(out, choice, self._beginning(choice))

    def _add(self, out: list[SseEvent], choice: int, fields: str | None) -> None:
        if fields is not None:
            out.append(self._chunks.delta(choice, fields))

    def _add_tokens(self, out: list[SseEvent], choice: int, event: TokenTrace | Finished) -> None:
        text, self._texts_due[choice] = self._texts_due[choice], ""
        tokens = answer_tokens([event])
        if text or tokens:
            self._add(out, choice, self._tokens(choice, text, tokens))

    def _finish(self, out: list[SseEvent], choice: int, finished: Finished) -> None:
        failure = failure_of(finished)
        if failure is not None:
            out.extend(self.fail(failure))
            return
        self._start(out, choice)
        if self._has_logprobs:
            self._add_tokens(out, choice, finished)
        last = {**self._end(), "logprobs": None, **stop_to_wire(finished.stop)}
        if self._reports:
            last["fullstop"] = report_to_wire(finished)
        out += self._chunks.last(choice, last, finished.usage)
