"""The events of an answer as a stream: what the encoders of all dialects have in common.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar, assert_never

from api.transport.errors import ApiError, failure_of
from api.transport.events import COMMENT, StreamFrame
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

    A dialect says what becomes of each event: its methods send frames, or none. A dialect without
    words for thinking or calls gets them as the text that the model wrote.

    A call is told in three steps, while it is written or all at once when it is complete: its
    start, its arguments, its end. Of a call that was cut short or turned out to be none, a stream
    has the part that was sent, and then an end that tells so, as far as the dialect can.

    Attributes:
        failure: Why the answer broke off; the stream ends with it.
    """

    def __init__(self) -> None:
        self.failure: ApiError | None = None
        # The calls that have been started and not ended.
        self._open_calls: set[str] = set()
        self._frames: list[_Frame] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[_Frame]:
        """Return the next frames; the last ones once every choice has finished."""
        for event in events:
            self._add(event, choice)
        return self._sent()

    def fail(self, error: ApiError) -> list[_Frame]:
        """Return the frames that tell of a failure, after which the stream is closed."""
        self.failure = error
        self._broken(error)
        return self._sent()

    def keepalive(self) -> str:
        """Return what breaks a silence and says nothing."""
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
                # The one place that asks whether a streamed answer failed.
                self.failure = failure_of(event)
                if self.failure is None:
                    self._end(event, choice)
                else:
                    self._broken(self.failure, event, choice)
            case _:
                assert_never(event)

    def _add_call(self, event: ToolCallCompleted, choice: int) -> None:
        """Tell of a complete call what has not been told while it was written."""
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
        """Tell that a call begins."""

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        """Add to the arguments of the call that was started last."""

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        """Tell that a call that was started is none."""

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        """Tell that a call is complete. It was started before, and its arguments were added."""
        self._text(call.raw, choice)

    def _token(self, trace: TokenTrace, choice: int) -> None:
        """Add the details of one token, whose text was added before."""

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        """Tell that the prompt is being read."""

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        """Add the scores of some tokens of the prompt."""

    @abstractmethod
    def _end(self, finished: Finished, choice: int) -> None:
        """Tell how a choice ended."""

    @abstractmethod
    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        """Tell of a failure; ``finished`` is there where a generation ended with it."""
