"""Encodes the events of an answer as a stream: the common part of all dialects' encoders.

Pure except for its own state: the list of what its methods return is the whole stream. Knows no web
framework. Any thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar, assert_never

from api.transport.answer_text import COMMENT, StreamFrame
from api.transport.errors import ApiError, failure_of
from engine import (
    Event,
    Finished,
    PromptProgress,
    PromptScores,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)

_Frame = TypeVar("_Frame", bound=StreamFrame)


class AnswerEncoder(ABC, Generic[_Frame]):
    """Turns the events of one request's generations into the frames of one stream.

    A dialect's methods send frames, or none, for each event. A dialect without fields for thinking
    or calls gets them as the text that the model wrote.

    A call is sent in three steps, while it is written or all at once when it is complete: its
    start, its arguments, its end. If a call is cut off, or turns out not to be a call, the part
    that was sent stays in the stream, and its end says so if the dialect can.
    """

    def __init__(self) -> None:
        self.failure: ApiError | None = None
        # The calls that have been started and not ended.
        self._open_calls: set[str] = set()
        self._frames: list[_Frame] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[_Frame]:
        """Return the next frames; the last frames once every choice has finished."""
        for event in events:
            self._add(event, choice)
        return self._sent()

    def fail(self, error: ApiError) -> list[_Frame]:
        """Return the frames that report a failure, after which the stream is closed."""
        self.failure = error
        self._broken(error)
        return self._sent()

    def keepalive(self) -> str:
        """Return the dialect's keepalive."""
        return COMMENT

    def _add(self, event: Event, choice: int) -> None:
        match event:
            case TextDelta():
                if event.text:
                    self._text(event.text, choice)
            case TokenTrace():
                self._token(event, choice)
            case ThinkingDelta():
                if event.text:
                    self._thinking(event.text, choice)
            case ToolCallArguments():
                self._call_arguments(event, choice)
            case ToolCallStarted():
                self._open_calls.add(event.call_id)
                self._call_started(event, choice)
            case ToolCallAbandoned():
                self._open_calls.discard(event.call_id)
                self._call_abandoned(event, choice)
            case ToolCallCompleted():
                self._add_call(event, choice)
            case PromptProgress():
                self._progress(event, choice)
            case PromptScores():
                self._prompt(event, choice)
            case Finished():
                # The only place that decides whether a streamed answer failed.
                self.failure = failure_of(event)
                if self.failure is None:
                    self._end(event, choice)
                else:
                    self._broken(self.failure, event, choice)
            case _:
                assert_never(event)

    def _add_call(self, event: ToolCallCompleted, choice: int) -> None:
        """Send the parts of a complete call that were not sent while it was written."""
        call = event.call
        if call.id in self._open_calls:
            self._open_calls.remove(call.id)
        else:
            self._call_started(ToolCallStarted(event.index, call.id, call.name), choice)
            self._call_arguments(ToolCallArguments(call.id, call.arguments), choice)
        self._call(event, choice)

    def _send(self, frame: _Frame) -> None:
        self._frames.append(frame)

    def _sent(self) -> list[_Frame]:
        frames, self._frames = self._frames, []
        return frames

    @abstractmethod
    def _text(self, text: str, choice: int) -> None:
        """Add text of the answer."""

    def _thinking(self, text: str, choice: int) -> None:
        """Add reasoning."""
        self._text(text, choice)

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        """Report that a call begins."""

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        """Add to the arguments of the call that was started last."""

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        """Report that a call that was started is not a call."""

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        """Report that a call is complete, after its start and its arguments."""
        self._text(call.raw, choice)

    def _token(self, trace: TokenTrace, choice: int) -> None:
        """Add the details of one token, whose text was added before."""

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        """Report that the prompt is being read."""

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        """Add the scores of some tokens of the prompt."""

    @abstractmethod
    def _end(self, finished: Finished, choice: int) -> None:
        """Report how a choice ended."""

    @abstractmethod
    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        """Report a failure; ``finished`` is given if a generation ended with it."""
