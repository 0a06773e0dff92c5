"""SGLang's native API as one value, and what it answers; a frame repeats the answer so far.

Pure except for the answers' own state; the replies to queries run on the server's loop.
https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Sequence
from importlib.metadata import version
from math import isfinite
from typing import Literal, NamedTuple, assert_never

from api.dialects.sglang.read import answer_count, ask, is_batch, prompt_name, requests_from_wire
from api.dialects.sglang.wire import (
    FlushedCache,
    GenerateAnswer,
    GenerateAnswers,
    GenerateEvent,
    GenerateFinish,
    GenerateMeta,
    GenerateParams,
    Likelihood,
    SglangErrorAnswer,
    SglangErrorFields,
    SglangModel,
    SglangServer,
)
from api.dialects.shared.answers import (
    AnswerEncoder,
    not_an_ending,
    raw_text_of,
    report_to_wire,
    with_field,
)
from api.dialects.shared.dialect import AnswerRoute, Collected, Dialect, Head, QueryRoute, admit_any
from api.dialects.shared.parameters import is_report_wanted
from api.transport.answer_text import (
    DONE,
    GrowingJsonText,
    GrowingList,
    SseEvent,
    json_text,
    json_with,
)
from api.transport.errors import ApiError, ContextOverflow, path_text, status_of
from api.transport.service import Service, client_id, collected, loaded_model, running
from engine import (
    CacheOwner,
    Event,
    Finished,
    GenerationRequest,
    PromptProgress,
    PromptScores,
    StopKind,
    StopRules,
    TokenTrace,
    Vocabulary,
    counted,
)


def finish_reason_to_wire(finished: Finished) -> GenerateFinish:
    """Return ``meta_info.finish_reason`` of an answer that ended normally."""
    stop = finished.stop
    match stop.kind:
        case StopKind.EOS | StopKind.TOOL_CALL:
            return {"type": "stop", "matched": None}
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return {"type": "stop", "matched": stop.value}
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return {"type": "length", "length": finished.usage.output_tokens}
        case StopKind.CANCELLED | StopKind.ERROR:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


class _Meta:
    """The metadata of one answer, without its text and tokens."""

    def __init__(self, params: GenerateParams, head: Head, index: int) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self._id = _answer_id(params, head, index)

    def to_wire(
        self, tokens: int, finished: Finished | None = None, reason: GenerateFinish | None = None
    ) -> GenerateMeta:
        """Return ``meta_info`` without logprobs; at the end, with the finish reason."""
        meta: GenerateMeta = {
            "id": self._id,
            "finish_reason": reason,
            "matched_stop": None if finished is None else finished.stop.value,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "cached_tokens": self.cached_tokens,
        }
        if finished is not None:
            usage = finished.usage
            meta["prompt_tokens"], meta["cached_tokens"] = usage.prompt_tokens, usage.cached_tokens
            meta["completion_tokens"] = usage.output_tokens
            meta["e2e_latency"] = finished.timing.total_s
        return meta


def _answer_id(params: GenerateParams, head: Head, index: int) -> str:
    """Return an answer's id: the client's own, if it sent one."""
    if isinstance(params.rid, list) and index < len(params.rid):
        return params.rid[index]
    stem = params.rid if isinstance(params.rid, str) else head.unique
    return stem if answer_count(params) == 1 else f"{stem}_{index}"


def answer_id(params: GenerateParams, head: Head) -> str:
    """Return the id of the first answer."""
    return _answer_id(params, head, 0)


def write_answers(
    answers: Sequence[Collected], params: GenerateParams, head: Head
) -> GenerateAnswers:
    """Return the whole answer, or a list of them."""
    written = [
        _whole(events, finished, params, _Meta(params, head, index), head)
        for index, (events, finished) in enumerate(answers)
    ]
    return written if is_batch(params) else written[0]


def _whole(
    events: Sequence[Event], finished: Finished, params: GenerateParams, known: _Meta, head: Head
) -> GenerateAnswer:
    traces = [event for event in events if isinstance(event, TokenTrace)]
    meta = known.to_wire(len(traces), finished, finish_reason_to_wire(finished))
    likelihoods = Likelihoods(params, head.vocabulary)
    if likelihoods.is_wanted:
        for event in events:
            if isinstance(event, PromptScores):
                likelihoods.add_prompt(event)
        likelihoods.put_prompt(meta)
        told = [likelihood for likelihood in map(likelihoods.of, traces) if likelihood is not None]
        meta["output_token_logprobs"] = [likelihood.own for likelihood in told]
        meta["output_top_logprobs"] = [likelihood.top for likelihood in told]
        if likelihoods.has_chosen:
            meta["output_token_ids_logprobs"] = [likelihood.chosen for likelihood in told]
    answer: GenerateAnswer = {
        "text": raw_text_of(events),
        "output_ids": [trace.token_id for trace in traces],
        "meta_info": meta,
    }
    if is_report_wanted(params.fullstop):
        answer["fullstop"] = report_to_wire(finished)
    return answer


class _GrowingAnswer:
    """One answer so far, as the JSON of a frame.

    Each frame repeats the whole answer. Encoding all of it for each frame would take quadratic
    time, so the earlier part is kept as JSON.
    """

    def __init__(self, params: GenerateParams, head: Head, index: int) -> None:
        self.known = _Meta(params, head, index)
        self.text = GrowingJsonText()
        self.likelihoods = Likelihoods(params, head.vocabulary)
        self._reports = is_report_wanted(params.fullstop)
        self._index = index if is_batch(params) else None
        self._tokens = 0
        self._ids = GrowingList()
        self._likely, self._top, self._chosen = GrowingList(), GrowingList(), GrowingList()

    def add_token(self, trace: TokenTrace) -> None:
        """Take a token that was sampled."""
        self._tokens += 1
        self._ids.add([trace.token_id])
        told = self.likelihoods.of(trace)
        if told is not None:
            self._likely.add([told.own])
            self._top.add([told.top])
            self._chosen.add([told.chosen])

    def frame(
        self,
        finished: Finished | None = None,
        reason: GenerateFinish | None = None,
        error: SglangErrorFields | None = None,
    ) -> SseEvent:
        meta = self.known.to_wire(self._tokens, finished, reason)
        likelihoods: dict[str, str] = {}
        if self.likelihoods.is_wanted:
            meta |= {
                "input_token_logprobs": [],
                "output_token_logprobs": [],
                "output_top_logprobs": [],
            }
            likelihoods = {
                "output_token_logprobs": self._likely.json(),
                "output_top_logprobs": self._top.json(),
            }
            if self.likelihoods.has_chosen:
                meta["output_token_ids_logprobs"] = []
                likelihoods["output_token_ids_logprobs"] = self._chosen.json()
            if finished is not None:
                # Only at the end, because a prompt's logprobs can be megabytes.
                self.likelihoods.put_prompt(meta)
        answer: GenerateAnswer = {"text": "", "output_ids": [], "meta_info": meta}
        if self._reports and finished is not None:
            answer["fullstop"] = report_to_wire(finished)
        if error is not None:
            answer["error"] = error
        if self._index is not None:
            answer["index"] = self._index
        encoded = {
            "text": self.text.json(),
            "output_ids": self._ids.json(),
            "meta_info": json_with(meta, likelihoods),
        }
        return SseEvent(None, json_with(answer, encoded))


class GenerateEncoder(AnswerEncoder[SseEvent]):
    """Turns the events of one request's generations into the frames of one stream."""

    def __init__(self, params: GenerateParams, head: Head) -> None:
        super().__init__()
        count = answer_count(params)
        self._answers = [_GrowingAnswer(params, head, index) for index in range(count)]
        self._unfinished = count
        self._has_grown = False

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the next frame; ``[DONE]`` too once every answer has ended."""
        self._has_grown = False
        frames = super().encode(events, choice)
        if self._has_grown:
            frames.append(self._answers[choice].frame())
        return frames

    def _text(self, text: str, choice: int) -> None:
        self._answers[choice].text.add(text)
        self._has_grown = True

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        self._answers[choice].likelihoods.add_prompt(scores)

    def _token(self, trace: TokenTrace, choice: int) -> None:
        self._answers[choice].add_token(trace)
        self._has_grown = True

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        known = self._answers[choice].known
        known.prompt_tokens, known.cached_tokens = progress.total, progress.cached

    def _end(self, finished: Finished, choice: int) -> None:
        self._last(choice, finished, finish_reason_to_wire(finished))
        self._unfinished -= 1
        if self._unfinished == 0:
            self._send(DONE)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        failure = error_to_wire(error, "")[1]
        if finished is None:
            self._send(SseEvent(None, json_text(failure)))
        else:
            reason: GenerateFinish = {"type": "abort", "message": error.message}
            self._last(choice, finished, reason, failure["error"])
        self._send(DONE)

    def _last(
        self,
        choice: int,
        finished: Finished,
        reason: GenerateFinish,
        error: SglangErrorFields | None = None,
    ) -> None:
        self._has_grown = False
        self._send(self._answers[choice].frame(finished, reason, error))


# -- logprobs ----------------------------------------------------------------------------------


# The value for an impossible token; JSON has no infinity.
_MIN_LOGPROB = -9999.0


class TokenLikelihoods(NamedTuple):
    """The logprobs of a sampled token, of the likeliest ones, and of the requested ids."""

    own: Likelihood
    top: list[Likelihood]
    chosen: list[Likelihood]


class Likelihoods:
    """The logprobs that one answer includes, for its own tokens and for its prompt's."""

    def __init__(self, params: GenerateParams, texts: Vocabulary | None) -> None:
        self.is_wanted = bool(params.return_logprob)
        self.has_chosen = self.is_wanted and bool(params.token_ids_logprob)
        self._texts = texts if params.return_text_in_logprobs else None
        self._prompt: list[Likelihood] = []
        self._prompt_top: list[list[Likelihood] | None] = []
        self._prompt_chosen: list[list[Likelihood] | None] = []
        self._names_top = False

    def add_prompt(self, scores: PromptScores) -> None:
        """Take the scores of some tokens of the prompt."""
        for token in scores.tokens():
            self._prompt.append(self._told(token.token_id, token.logprob))
            self._names_top = self._names_top or bool(token.top)
            is_known = token.logprob is not None
            self._prompt_top.append(self._list(token.top) if is_known else None)
            self._prompt_chosen.append(self._list(token.chosen) if is_known else None)

    def put_prompt(self, meta: GenerateMeta) -> None:
        """Add the logprobs of the prompt's tokens."""
        if not self.is_wanted:
            return
        meta["input_token_logprobs"] = self._prompt
        if not self._prompt:
            return
        if self._names_top:
            meta["input_top_logprobs"] = self._prompt_top
        if self.has_chosen:
            meta["input_token_ids_logprobs"] = self._prompt_chosen
        known = [likelihood[0] for likelihood in self._prompt if likelihood[0] is not None]
        meta["normalized_prompt_logprob"] = sum(known) / len(known) if known else None

    def of(self, trace: TokenTrace) -> TokenLikelihoods | None:
        """Return the logprobs that the client gets for a sampled token."""
        stats = trace.stats
        if stats is None or not self.is_wanted:
            return None
        return TokenLikelihoods(
            self._told(trace.token_id, stats.logprob),
            self._list(stats.top),
            self._list(stats.chosen),
        )

    def _list(self, pairs: Sequence[tuple[int, float]]) -> list[Likelihood]:
        return [self._told(token_id, logprob) for token_id, logprob in pairs]

    def _told(self, token_id: int, logprob: float | None) -> Likelihood:
        text = None if self._texts is None else self._texts.text_of(token_id)
        if logprob is not None and not isfinite(logprob):
            logprob = _MIN_LOGPROB
        return logprob, token_id, text


# -- errors ------------------------------------------------------------------------------------


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, SglangErrorAnswer]:
    """Return the status and the body of an error answer."""
    status = status_of(error.kind)
    return status, {
        "error": {
            "message": _message(error),
            "type": error.kind.value,
            "param": path_text(error.field) or None,
            "code": status,
        }
    }


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for exactly these words.
        return (
            f"The input ({error.prompt_tokens} tokens) is longer than the model's context length "
            f"({error.max_tokens} tokens)."
        )
    return with_field(error)


# -- the model and the server's health ---------------------------------------------------------


async def model_info(service: Service, _: None) -> SglangModel:
    """Describe the loaded model, without its path on this computer."""
    model = await loaded_model(service)
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "is_generation": True,
        "preferred_sampling_params": None,
        "max_context_length": model.context_length,
        "vocab_size": model.vocabulary_size,
        "model_type": model.architecture,
    }


async def server_info(service: Service, _: None) -> SglangServer:
    """Describe the server, without any path on this computer."""
    model = await loaded_model(service)
    states = service.models or (service.engine.status,)
    held = service.engine.status.cache_use.shares.get(client_id())
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "served_model_name": model.id,
        "context_length": model.context_length,
        "version": version("fullstop-chat"),
        "internal_states": [
            {
                "running": sum(state.running for state in states),
                "waiting": sum(state.waiting for state in states),
                "cached_prompts": held.entries if held else 0,
                "cached_bytes": held.size_bytes if held else 0,
            }
        ],
    }


async def flush_cache(service: Service, _: None) -> FlushedCache:
    """Clear the client's own prompt cache in memory; running answers continue."""
    prompts, size_bytes = await service.engine.forget_prompts(CacheOwner(client_id()))
    return {
        "success": True,
        "message": f"Cache flushed: {counted(prompts, 'prompt')}. Running answers continue.",
        "flushed_prompts": prompts,
        "freed_bytes": size_bytes,
    }


async def health_generate(service: Service, _: None) -> None:
    """Return once the model has sampled a token."""
    model = await loaded_model(service)
    probe = GenerationRequest(
        prompt=(model.eos[0].token_id if model.eos else 0,),
        stops=StopRules(ignore_eos=True),
        max_tokens=1,
    )
    async with running(service, [probe]) as [generation]:
        await collected(generation)


# -- the dialect -------------------------------------------------------------------------------


# SGLang accepts both methods.
_FLUSHING: tuple[Literal["POST"], Literal["GET"]] = ("POST", "GET")

DIALECT = Dialect(
    name="Generate",
    title="SGLang /generate",
    vendor="SGLang",
    reference="https://docs.sglang.ai/basic_usage/native_api.html",
    render_error=error_to_wire,
    error_type=SglangErrorAnswer,
    field_names={
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "chosen_logprobs": "token_ids_logprob",
        "prompt_scoring.start": "logprob_start_len",
        "prompt_scoring.top": "top_logprobs_num",
        "prompt_scoring.token_ids": "token_ids_logprob",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint.regex": "sampling_params.regex",
        "constraint.grammar": "sampling_params.ebnf",
        "constraint": "sampling_params",
        # The engine uses this name only to say that the prompt is empty.
        "messages": "text",
    },
    ask=ask,
    answers=(
        AnswerRoute(
            path="/generate",
            operation="text_completion",
            summary="SGLang's native API: raw prompts",
            request=GenerateParams,
            read=requests_from_wire,
            answer=GenerateAnswers,
            write_whole=write_answers,
            event=GenerateEvent,
            encoder=GenerateEncoder,
            answer_id=answer_id,
            admit=admit_any,
            own_names=prompt_name,
        ),
    ),
    queries=(
        QueryRoute(
            method="GET",
            path="/get_model_info",
            summary="The loaded model, for SGLang's clients",
            reply=model_info,
            answer=SglangModel,
        ),
        *(
            QueryRoute(
                method="GET",
                path=path,
                summary="The server and what it is doing, for SGLang's clients",
                reply=server_info,
                answer=SglangServer,
            )
            for path in ("/server_info", "/get_server_info")
        ),
        *(
            QueryRoute(
                method=method,
                path="/flush_cache",
                summary="Clear the prompt cache in memory",
                reply=flush_cache,
                answer=FlushedCache,
            )
            for method in _FLUSHING
        ),
        QueryRoute(
            method="GET",
            path="/health_generate",
            summary="Whether a token can be sampled",
            reply=health_generate,
        ),
    ),
)
