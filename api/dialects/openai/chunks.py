"""What the chunks of a Chat Completions and of a Completions stream have in common.

Pure but for its own state; no web framework. Any thread.
"""

from dataclasses import dataclass

from api.dialects.openai.endings import usage_to_wire
from api.dialects.openai.errors import error_to_wire
from api.transport.errors import ApiError
from api.transport.events import SseEvent
from api.transport.json_text import json_text
from engine import Usage

DONE = SseEvent(None, "[DONE]")


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What is known of an answer before its first token.

    Attributes:
        completion_id: Its id.
        created: Unix time, in seconds.
        model: The name of the model that answers.
    """

    completion_id: str
    created: int
    model: str

    def fields(self, kind: str) -> dict[str, object]:
        """Return the fields with which an object of some kind begins."""
        return {
            "id": self.completion_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


class Chunks:
    """Wraps choices into chunks, and knows when the last choice has ended.

    Args:
        head: The fields that every chunk has beside its choices.
        choices: How many choices the stream has.
        per_prompt: How many of them share a prompt.
        includes_usage: Whether a chunk with the usage follows the last choice.
    """

    def __init__(
        self, head: dict[str, object], *, choices: int, per_prompt: int, includes_usage: bool
    ) -> None:
        self._head = head
        self._choices = choices
        self._per_prompt = per_prompt
        self._includes_usage = includes_usage
        self._usages: dict[int, Usage] = {}
        # What every delta has in common is serialised once.
        self._delta_head = json_text(head)[:-1] + ',"choices":[{"index":'
        usage = ',"usage":null' if includes_usage else ""
        self._delta_tail = f',"finish_reason":null}}]{usage}}}'

    def delta(self, choice: int, fields: str) -> SseEvent:
        """Return a chunk of one choice that goes on; ``fields`` are JSON without its braces."""
        return SseEvent(None, f"{self._delta_head}{choice},{fields}{self._delta_tail}")

    def last(self, choice: int, fields: dict[str, object], usage: Usage) -> list[SseEvent]:
        """Return a choice's last chunk, and what ends the stream if it is the last choice's."""
        out = [self._chunk([{"index": choice, **fields}], None)]
        self._usages[choice] = usage
        if len(self._usages) < self._choices:
            return out
        if self._includes_usage:
            in_order = [self._usages[index] for index in sorted(self._usages)]
            out.append(self._chunk([], usage_to_wire(in_order, self._per_prompt)))
        return [*out, DONE]

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the error as a chunk, after which the stream is closed."""
        _, body = error_to_wire(error, "")
        return [SseEvent(None, json_text(body))]

    def _chunk(self, choices: list[dict[str, object]], usage: dict[str, object] | None) -> SseEvent:
        chunk: dict[str, object] = {**self._head, "choices": choices}
        if self._includes_usage:
            chunk["usage"] = usage
        return SseEvent(None, json_text(chunk))
