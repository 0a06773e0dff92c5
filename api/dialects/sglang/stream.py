"""Answers of ``/generate`` as server-sent events: each frame holds all the text so far.

Pure but for its own state. Knows no web framework. Any thread.
"""

from collections.abc import Sequence

from api.dialects.sglang.errors import error_to_wire
from api.dialects.sglang.write import Output
from api.transport.errors import ApiError, failure_of
from api.transport.events import SseEvent
from api.transport.json_text import json_text
from engine import Event, Finished

DONE = SseEvent(None, "[DONE]")


class GenerateEncoder:
    """Turns the events of one request's generations into the frames of one stream."""

    def __init__(self, outputs: Sequence[Output], *, is_batch: bool) -> None:
        self._outputs = outputs
        self._is_batch = is_batch
        self._unfinished = len(outputs)

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the next frame; ``[DONE]`` too once every answer has ended."""
        output = self._outputs[choice]
        if not output.add(events):
            return []
        answer = output.to_wire()
        if self._is_batch:
            answer["index"] = choice
        last = events[-1]
        if not isinstance(last, Finished):
            return [SseEvent(None, json_text(answer))]
        failure = failure_of(last)
        if failure is not None:
            answer |= error_to_wire(failure, "")[1]
        self._unfinished -= 1
        is_over = failure is not None or self._unfinished == 0
        return [SseEvent(None, json_text(answer)), *([DONE] if is_over else [])]

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the error as a frame, after which the stream is closed."""
        return [SseEvent(None, json_text(error_to_wire(error, "")[1])), DONE]
