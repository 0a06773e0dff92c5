"""Answers of ``/generate``: each frame of a stream repeats the whole answer so far.

Pure but for their own state; knows no web framework. Any thread.
https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Sequence
from typing import assert_never

from api.dialects.sglang.errors import error_to_wire
from api.dialects.sglang.read import answer_count, is_batch
from api.dialects.sglang.wire import (
    GenerateAnswer,
    GenerateAnswers,
    GenerateFinish,
    GenerateMeta,
    GenerateParams,
)
from api.dialects.shared.answers.encoder import AnswerEncoder
from api.dialects.shared.answers.errors import not_an_ending
from api.dialects.shared.answers.report import report_to_wire
from api.dialects.shared.answers.said import raw_text_of
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters.extension import is_report_wanted
from api.transport.errors import ApiError
from api.transport.events import DONE, SseEvent
from api.transport.json_text import json_text
from engine import Event, Finished, PromptProgress, StopKind, TokenStats, TokenTrace


def finish_reason_to_wire(finished: Finished) -> GenerateFinish:
    """Return ``meta_info.finish_reason`` of an answer that ended normally."""
    stop = finished.stop
    match stop.kind:
        case StopKind.EOS | StopKind.TOOL_CALL:
            return {"type": "stop", "matched": None}
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return {"type": "stop", "matched": stop.value}
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL:
            return {"type": "length", "length": finished.usage.output_tokens}
        case StopKind.CANCELLED | StopKind.ERROR:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


class _GrowingAnswer:
    """One answer up to now.

    Args:
        params: The request.
        head: What is known from the beginning.
        index: Which answer of the request it is.

    Attributes:
        text: All text so far.
        prompt_tokens: How many tokens the prompt has, once that is known.
        cached_tokens: How many of them the cache held.
    """

    def __init__(self, params: GenerateParams, head: Head, index: int) -> None:
        self.text = ""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self._id = _answer_id(params, head, index)
        self._has_logprobs = bool(params.return_logprob)
        self._reports = is_report_wanted(params.fullstop)
        self._ids: list[int] = []
        self._stats: list[tuple[int, TokenStats]] = []

    def add_token(self, trace: TokenTrace) -> None:
        """Take a token that was sampled."""
        self._ids.append(trace.token_id)
        if trace.stats is not None:
            self._stats.append((trace.token_id, trace.stats))

    def to_wire(
        self, finished: Finished | None = None, reason: GenerateFinish | None = None
    ) -> GenerateAnswer:
        """Return the answer so far; at its end with how and why it ended."""
        meta: GenerateMeta = {
            "id": self._id,
            "finish_reason": reason,
            "matched_stop": None if finished is None else finished.stop.value,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": len(self._ids),
            "cached_tokens": self.cached_tokens,
        }
        if finished is not None:
            usage = finished.usage
            meta["prompt_tokens"], meta["cached_tokens"] = usage.prompt_tokens, usage.cached_tokens
            meta["completion_tokens"] = usage.output_tokens
            meta["e2e_latency"] = finished.timing.total_s
        if self._has_logprobs:
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = [
                (stats.logprob, token_id, None) for token_id, stats in self._stats
            ]
            meta["output_top_logprobs"] = [
                [(logprob, token_id, None) for token_id, logprob in stats.top]
                for _, stats in self._stats
            ]
        answer: GenerateAnswer = {"text": self.text, "output_ids": self._ids, "meta_info": meta}
        if self._reports and finished is not None:
            answer["fullstop"] = report_to_wire(finished)
        return answer


def _answer_id(params: GenerateParams, head: Head, index: int) -> str:
    """Return an answer's id: the client's own where there is one."""
    if isinstance(params.rid, list) and index < len(params.rid):
        return params.rid[index]
    stem = params.rid if isinstance(params.rid, str) else head.unique
    return stem if answer_count(params) == 1 else f"{stem}_{index}"


def write_answers(
    answers: Sequence[Collected], params: GenerateParams, head: Head
) -> GenerateAnswers:
    """Return the whole answer, or a list of them.

    Takes what ``WriteWhole`` does.
    """
    written = []
    for index, (events, finished) in enumerate(answers):
        answer = _GrowingAnswer(params, head, index)
        answer.text = raw_text_of(events)
        for event in events:
            if isinstance(event, TokenTrace):
                answer.add_token(event)
        written.append(answer.to_wire(finished, finish_reason_to_wire(finished)))
    return written if is_batch(params) else written[0]


class GenerateEncoder(AnswerEncoder[SseEvent]):
    """Turns the events of one request's generations into the frames of one stream."""

    def __init__(self, params: GenerateParams, head: Head) -> None:
        super().__init__()
        count = answer_count(params)
        self._answers = [_GrowingAnswer(params, head, index) for index in range(count)]
        self._unfinished = count
        self._is_batch = is_batch(params)
        self._has_grown = False

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the next frame; ``[DONE]`` too once every answer has ended."""
        self._has_grown = False
        frames = super().encode(events, choice)
        if self._has_grown:
            frames.append(self._frame(self._answers[choice].to_wire(), choice))
        return frames

    def _text(self, text: str, choice: int) -> None:
        self._answers[choice].text += text
        self._has_grown = True

    def _token(self, trace: TokenTrace, choice: int) -> None:
        self._answers[choice].add_token(trace)
        self._has_grown = True

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        answer = self._answers[choice]
        answer.prompt_tokens, answer.cached_tokens = progress.total, progress.cached

    def _end(self, finished: Finished, choice: int) -> None:
        answer = self._answers[choice].to_wire(finished, finish_reason_to_wire(finished))
        self._last(answer, choice)
        self._unfinished -= 1
        if self._unfinished == 0:
            self._send(DONE)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        failure = error_to_wire(error, "")[1]
        if finished is None:
            self._send(SseEvent(None, json_text(failure)))
        else:
            reason: GenerateFinish = {"type": "abort", "message": error.message}
            answer = self._answers[choice].to_wire(finished, reason)
            answer["error"] = failure["error"]
            self._last(answer, choice)
        self._send(DONE)

    def _last(self, answer: GenerateAnswer, choice: int) -> None:
        self._has_grown = False
        self._send(self._frame(answer, choice))

    def _frame(self, answer: GenerateAnswer, choice: int) -> SseEvent:
        if self._is_batch:
            answer["index"] = choice
        return SseEvent(None, json_text(answer))
