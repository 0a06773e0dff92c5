"""Answers of Ollama's API as lines of JSON.

Pure but for its own state: a whole answer is the list of what its methods returned. Knows no web
framework. Any thread.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, assert_never

from api.dialects.ollama.errors import error_to_wire
from api.dialects.ollama.read import call_to_wire, counts_to_wire, done_reason_to_wire
from api.dialects.shared.extension import report_to_wire
from api.transport.errors import ApiError, failure_of
from api.transport.json_text import json_text
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
)


class JsonLine(NamedTuple):
    """One line of the stream, not yet serialised."""

    value: dict[str, Any]

    def frame(self) -> str:
        """Return the line as it stands in the stream."""
        return f"{json_text(self.value)}\n"


class AnswerEncoder:
    """Turns the events of one generation into the lines of one answer.

    Args:
        model: The name under which the answer is sent.
        created_at: When it was asked for, as the API spells times.
        is_chat: Whether lines hold a ``message``, or a ``response`` and ``thinking`` beside it.
        reports: Whether the last line holds the stop record.
    """

    def __init__(self, *, model: str, created_at: str, is_chat: bool, reports: bool) -> None:
        self._head: dict[str, Any] = {"model": model, "created_at": created_at}
        self._is_chat = is_chat
        self._reports = reports

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[JsonLine]:
        """Return the answer's next lines; the last one once ``Finished`` is among the events."""
        lines: list[JsonLine] = []
        for event in events:
            match event:
                case TextDelta():
                    lines.append(self._line(text=event.text))
                case ThinkingDelta():
                    lines.append(self._line(thinking=event.text))
                case ToolCallDelta():
                    if self._is_chat:
                        lines.append(self._line(calls=[call_to_wire(event.call, event.index)]))
                    else:
                        # Nothing was offered that could be called: it is text like any other.
                        lines.append(self._line(text=event.raw))
                case Finished():
                    lines.append(self._last(event))
                case PromptProgress() | TokenTrace():
                    pass
                case _:
                    assert_never(event)
        return lines

    def fail(self, error: ApiError) -> list[JsonLine]:
        """Return the error as a line, after which the stream is closed."""
        return [JsonLine(error_to_wire(error, "")[1])]

    def sign_of_life(self) -> JsonLine:
        """Return a line that says nothing; a blank one would be no JSON to the clients."""
        return self._line()

    def whole(self, events: Iterable[Event], finished: Finished) -> dict[str, Any]:
        """Return an answer that is not streamed.

        Args:
            events: Its deltas.
            finished: Its end, a normal one.
        """
        text = thinking = ""
        calls: list[dict[str, Any]] = []
        for event in events:
            match event:
                case TextDelta():
                    text += event.text
                case ThinkingDelta():
                    thinking += event.text
                case ToolCallDelta():
                    if self._is_chat:
                        calls.append(call_to_wire(event.call, event.index))
                    else:
                        text += event.raw
                case _:
                    pass
        content = self._line(text=text, thinking=thinking, calls=calls).value
        return content | self._end(finished)

    def unanswered(self, reason: Literal["load", "unload"]) -> dict[str, Any]:
        """Return the answer to a request that only asks for the model to be there, or to go."""
        return {**self._line().value, "done": True, "done_reason": reason}

    def _last(self, finished: Finished) -> JsonLine:
        failure = failure_of(finished)
        end = self._line().value
        if failure is None:
            return JsonLine(end | self._end(finished))
        reason = {"done": True, "done_reason": "error"}
        return JsonLine(end | reason | error_to_wire(failure, "")[1])

    def _end(self, finished: Finished) -> dict[str, Any]:
        end: dict[str, Any] = {"done": True, "done_reason": done_reason_to_wire(finished.stop)}
        if self._reports:
            end["fullstop"] = report_to_wire(finished)
        return end | counts_to_wire(finished)

    def _line(
        self, text: str = "", thinking: str = "", calls: Sequence[dict[str, Any]] = ()
    ) -> JsonLine:
        extra = {"thinking": thinking} if thinking else {}
        if not self._is_chat:
            return JsonLine({**self._head, "response": text, **extra, "done": False})
        message: dict[str, Any] = {"role": "assistant", "content": text, **extra}
        if calls:
            message["tool_calls"] = list(calls)
        return JsonLine({**self._head, "message": message, "done": False})
