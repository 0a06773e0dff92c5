"""One answer of ``/generate`` as it grows: its text, its token ids and what is told of them.

Pure but for its own state; knows no web framework. Any thread.
"""

from collections.abc import Iterable
from typing import Any, assert_never

from api.dialects.sglang.read import finish_reason_to_wire
from api.dialects.shared.extension import report_to_wire
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenStats,
    TokenTrace,
    ToolCallDelta,
)


class Output:
    """Collects the events of one generation.

    Attributes:
        finished: The end, once it has come.
    """

    def __init__(
        self, answer_id: str, *, has_logprobs: bool = False, reports: bool = False
    ) -> None:
        self.finished: Finished | None = None
        self._id = answer_id
        self._has_logprobs = has_logprobs
        self._reports = reports
        self._text = ""
        self._thinking = ""
        self._ids: list[int] = []
        self._stats: list[tuple[int, TokenStats]] = []
        self._prompt_tokens = 0
        self._cached_tokens = 0

    def add(self, events: Iterable[Event]) -> bool:
        """Take some events; return whether there is anything new to tell."""
        is_new = False
        for event in events:
            match event:
                case TextDelta():
                    self._text += event.text
                case ThinkingDelta():
                    self._thinking += event.text
                case ToolCallDelta():
                    # Here a call is text like any other.
                    self._text += event.raw
                case TokenTrace():
                    self._ids.append(event.token_id)
                    if event.stats is not None:
                        self._stats.append((event.token_id, event.stats))
                case PromptProgress():
                    self._prompt_tokens, self._cached_tokens = event.total, event.cached
                    continue
                case Finished():
                    self._finish(event)
                case _:
                    assert_never(event)
            is_new = True
        return is_new

    def to_wire(self) -> dict[str, Any]:
        """Return the answer as far as it has come."""
        answer: dict[str, Any] = {"text": self._text, "output_ids": self._ids}
        if self._thinking:
            answer["reasoning_content"] = self._thinking
        answer["meta_info"] = self._meta()
        if self._reports and self.finished is not None:
            answer["fullstop"] = report_to_wire(self.finished)
        return answer

    def _finish(self, finished: Finished) -> None:
        self.finished = finished
        self._text += finished.unfinished_tool_call
        self._prompt_tokens = finished.usage.prompt_tokens
        self._cached_tokens = finished.usage.cached_tokens

    def _meta(self) -> dict[str, Any]:
        finished = self.finished
        meta: dict[str, Any] = {
            "id": self._id,
            "finish_reason": None if finished is None else finish_reason_to_wire(finished),
            "matched_stop": None if finished is None else finished.stop.value,
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": len(self._ids),
            "cached_tokens": self._cached_tokens,
        }
        if finished is not None:
            meta["completion_tokens"] = finished.usage.output_tokens
            meta["e2e_latency"] = finished.timing.total_s
        if self._has_logprobs:
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = [
                [stats.logprob, token_id, None] for token_id, stats in self._stats
            ]
            meta["output_top_logprobs"] = [
                [[logprob, token_id, None] for token_id, logprob in stats.top]
                for _, stats in self._stats
            ]
        return meta
