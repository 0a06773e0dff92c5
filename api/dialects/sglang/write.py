"""Writes the answers of ``/generate``, whole and as a stream; a frame repeats the answer so far.

Pure except for the encoder's own state.
"""

from collections.abc import Sequence
from typing import assert_never

from api.dialects.openai.write import finite
from api.dialects.sglang.read import answer_count, is_batch
from api.dialects.sglang.wire import (
    GenerateAnswer,
    GenerateAnswers,
    GenerateFinish,
    GenerateMeta,
    GenerateParams,
    SglangError,
    TokenLogprob,
)
from api.dialects.shared.answers import AnswerEncoder, not_an_ending, report_to_wire, with_field
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.encoding import DONE, json_text, sse_event
from api.service.errors import ApiError, ContextOverflow, path_text
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished, PromptProgress, TokenTrace
from engine.values.tokens import PromptScores


def finish_reason_to_wire(finished: Finished) -> GenerateFinish:
    """Return ``meta_info.finish_reason`` of an answer that ended normally."""
    stop = finished.stop
    match stop.kind:
        case StopKind.EOS | StopKind.TOOL_CALL:
            return {"type": "stop", "matched": None}
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return {"type": "stop", "matched": stop.value}
        case (
            StopKind.REPETITION | StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL
        ):
            return {"type": "length", "length": finished.usage.output_tokens}
        case StopKind.CANCELLED | StopKind.ERROR:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def answer_id(params: GenerateParams, unique: str, index: int) -> str:
    """Return an answer's id: the client's own, if it sent one."""
    stem = params.rid or unique
    return stem if answer_count(params) == 1 else f"{stem}_{index}"


def write_answers(
    answers: Sequence[Collected], params: GenerateParams, head: Head
) -> GenerateAnswers:
    """Return the whole answer, or a list of them."""
    encoder = GenerateEncoder(params, head)
    written = [
        encoder.whole(events, finished, index) for index, (events, finished) in enumerate(answers)
    ]
    return written if is_batch(params) else written[0]


class GenerateEncoder(AnswerEncoder):
    """Turns the events of one request's generations into the frames of one stream."""

    def __init__(self, params: GenerateParams, head: Head) -> None:
        super().__init__()
        self._reports = params.fullstop.report
        self._has_logprobs = bool(params.return_logprob)
        self._no_effect = head.no_effect
        self._vocabulary = head.vocabulary if params.return_text_in_logprobs else None
        self._is_batch = is_batch(params)
        count = self._unfinished = answer_count(params)
        self._answers = [_empty(answer_id(params, head.unique, index)) for index in range(count)]
        # Only the last frame has the prompt's logprobs, which can be megabytes.
        self._prompts: list[list[TokenLogprob]] = [[] for _ in range(count)]
        self._prompt_tops: list[list[list[TokenLogprob] | None]] = [[] for _ in range(count)]
        if self._has_logprobs:
            for answer in self._answers:
                answer["meta_info"] |= {
                    "input_token_logprobs": [],
                    "output_token_logprobs": [],
                    "output_top_logprobs": [],
                }
        self._has_grown = False

    def whole(self, events: Sequence[Event], finished: Finished, index: int) -> GenerateAnswer:
        for event in events:
            self._add(event, index)
        self._finish(index, finished, finish_reason_to_wire(finished))
        return self._answers[index]

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[str]:
        """Return the next frame; ``[DONE]`` too once every answer has ended."""
        self._has_grown = False
        frames = super().encode(events, choice)
        if self._has_grown:
            frames.append(self._frame(choice))
        return frames

    def _frame(self, choice: int) -> str:
        index = {"index": choice} if self._is_batch else {}
        return sse_event(json_text({**self._answers[choice], **index}))

    def _text(self, text: str, choice: int) -> None:
        self._answers[choice]["text"] += text
        self._has_grown = True

    def _token(self, trace: TokenTrace, choice: int) -> None:
        answer = self._answers[choice]
        meta = answer["meta_info"]
        answer["output_ids"].append(trace.token_id)
        meta["completion_tokens"] += 1
        if self._has_logprobs and trace.stats is not None:
            own = self._logprob(trace.token_id, trace.stats.logprob)
            meta["output_token_logprobs"].append(own)
            meta["output_top_logprobs"].append(self._logprobs(trace.stats.top))
        self._has_grown = True

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        meta = self._answers[choice]["meta_info"]
        meta["prompt_tokens"], meta["cached_tokens"] = progress.total, progress.cached

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        for token in scores.tokens():
            self._prompts[choice].append(self._logprob(token.token_id, token.logprob))
            top = None if token.logprob is None else self._logprobs(token.top)
            self._prompt_tops[choice].append(top)

    def _end(self, finished: Finished, choice: int) -> None:
        self._finish(choice, finished, finish_reason_to_wire(finished))
        self._send(self._frame(choice))
        self._unfinished -= 1
        if self._unfinished == 0:
            self._send(DONE)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        failure = error_to_wire(error, "")[1]
        if finished is None:
            self._send(sse_event(json_text(failure)))
        else:
            self._finish(choice, finished, {"type": "abort", "message": error.message})
            self._answers[choice]["error"] = failure["error"]
            self._send(self._frame(choice))
        self._send(DONE)

    def _finish(self, choice: int, finished: Finished, reason: GenerateFinish) -> None:
        self._has_grown = False
        answer, usage = self._answers[choice], finished.usage
        meta = answer["meta_info"]
        meta["finish_reason"], meta["matched_stop"] = reason, finished.stop.value
        meta["prompt_tokens"], meta["cached_tokens"] = usage.prompt_tokens, usage.cached_tokens
        meta["completion_tokens"] = usage.output_tokens
        meta["e2e_latency"] = finished.timing.total_s
        if self._has_logprobs:
            meta["input_token_logprobs"] = self._prompts[choice]
            if any(self._prompt_tops[choice]):
                meta["input_top_logprobs"] = self._prompt_tops[choice]
        if self._reports:
            answer["fullstop"] = report_to_wire(finished, self._no_effect)

    def _logprobs(self, pairs: Sequence[tuple[int, float]]) -> list[TokenLogprob]:
        return [self._logprob(token_id, logprob) for token_id, logprob in pairs]

    def _logprob(self, token_id: int, logprob: float | None) -> TokenLogprob:
        text = None if self._vocabulary is None else self._vocabulary.text_of(token_id)
        return None if logprob is None else finite(logprob), token_id, text


def _empty(answer_id: str) -> GenerateAnswer:
    meta: GenerateMeta = {
        "id": answer_id,
        "finish_reason": None,
        "matched_stop": None,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cached_tokens": 0,
    }
    return {"text": "", "output_ids": [], "meta_info": meta}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, SglangError]]:
    """Return the status and the body of an error answer."""
    message, status = with_field(error), error.kind.status
    if isinstance(error, ContextOverflow):
        # Clients look for exactly this text.
        message = (
            f"The input ({error.prompt_tokens} tokens) is longer than the model's context length "
            f"({error.max_tokens} tokens)."
        )
    param = path_text(error.field) or None
    return status, {
        "error": {"message": message, "type": error.kind.value, "param": param, "code": status}
    }
