"""Streams answers of several choices, for Chat Completions and Completions.

Pure except for its own state; no web framework. Any thread.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.dialects.openai.answers import CompletionUsage
from api.dialects.openai.endings import usage_to_wire
from api.dialects.openai.errors import error_to_wire
from api.dialects.openai.logprobs import answer_tokens
from api.dialects.shared.answers.encoder import AnswerEncoder
from api.transport.answer_text import DONE, SseEvent, json_text
from api.transport.errors import ApiError
from engine import Finished, PromptProgress, TokenSpan, TokenTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The number of choices of an answer, and what its stream reports of them."""

    count: int
    per_prompt: int
    includes_usage: bool
    has_logprobs: bool
    reports: bool


class ChoicesEncoder(AnswerEncoder[SseEvent]):
    """Turns the events of one request's generations into the chunks of one stream.

    A subclass fills the chunks: ``_delta`` takes the fields of one choice as JSON text without
    braces.
    """

    def __init__(self, empty: Mapping[str, object], choices: Choices) -> None:
        super().__init__()
        self._empty = empty
        self._choices = choices
        # Text that waits for the trace of its token.
        self._texts_due = [""] * choices.count
        self._started: set[int] = set()
        self._ends: dict[int, Finished] = {}
        # The common part of the deltas is serialised once.
        self._delta_head = json_text(empty).removesuffix("]}") + '{"index":'
        usage = ',"usage":null' if choices.includes_usage else ""
        self._delta_tail = f',"finish_reason":null}}]{usage}}}'

    # -- what an API implements -------------------------------------------------------------

    def _begin(self, choice: int) -> None:
        """Send what comes before the text of a choice."""

    @abstractmethod
    def _text_fields(self, text: str) -> str:
        """Return the fields of a chunk with more text."""

    @abstractmethod
    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        """Return the fields of a chunk with more text and its tokens."""

    @abstractmethod
    def _last_choice(self, finished: Finished, choice: int) -> Mapping[str, object]:
        """Return the last chunk's choice: no new content, and how it ended."""

    # -- chunks ----------------------------------------------------------------------------

    def _delta(self, choice: int, fields: str) -> None:
        """Send a chunk of one unfinished choice."""
        self._send(SseEvent(None, f"{self._delta_head}{choice},{fields}{self._delta_tail}"))

    def _chunk(
        self, choices: Sequence[Mapping[str, object]], usage: CompletionUsage | None = None
    ) -> None:
        chunk: dict[str, object] = {**self._empty, "choices": choices}
        if self._choices.includes_usage:
            chunk["usage"] = usage
        self._send(SseEvent(None, json_text(chunk)))

    # -- events ----------------------------------------------------------------------------

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start(choice)

    def _start(self, choice: int) -> None:
        if choice not in self._started:
            self._started.add(choice)
            self._begin(choice)

    def _text(self, text: str, choice: int) -> None:
        if self._choices.has_logprobs:
            self._texts_due[choice] += text
        else:
            self._delta(choice, self._text_fields(text))

    def _token(self, trace: TokenTrace, choice: int) -> None:
        self._add_tokens(trace, choice)

    def _add_tokens(self, event: TokenTrace | Finished, choice: int) -> None:
        """Send the text that an event completes, with its logprobs if the request asks for them."""
        if not self._choices.has_logprobs:
            return
        text, self._texts_due[choice] = self._texts_due[choice], ""
        tokens = self._tokens_of(event, choice)
        if text or tokens:
            self._delta(choice, self._token_fields(text, tokens))

    def _tokens_of(self, event: TokenTrace | Finished, choice: int) -> list[TokenSpan]:
        """Return the tokens that an event completes, for a chunk's logprobs."""
        return answer_tokens([event])

    def _end(self, finished: Finished, choice: int) -> None:
        self._start(choice)
        self._add_tokens(finished, choice)
        self._chunk([self._last_choice(finished, choice)])
        self._ends[choice] = finished
        if len(self._ends) < self._choices.count:
            return
        if self._choices.includes_usage:
            in_order = [self._ends[index] for index in sorted(self._ends)]
            self._chunk([], usage_to_wire(in_order, self._choices.per_prompt))
        self._send(DONE)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._send(SseEvent(None, json_text(error_to_wire(error, "")[1])))
