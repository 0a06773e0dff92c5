"""Checks a request against the loaded model and prepares its row. Engine thread; no MLX."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import InvalidRequest, PromptTooLong
from engine.inference.backend import Prompt
from engine.output.answer import AnswerBuilder, AnswerSetup, RunSetting
from engine.output.channels import continues_text
from engine.output.tool_calls.calls import readers
from engine.scheduling.generation import Generation
from engine.scheduling.queue.preparing import choices_field
from engine.scheduling.queue.room import Wanted
from engine.scheduling.queue.row import Row
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import PromptScoring

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

MAX_TOP_LOGPROBS = 20
# The most ids whose log-probabilities are listed for each token.
MAX_CHOSEN_IDS = 128
# How many last tokens of a prompt can change the text of an answer's first token.
_NEIGHBOURS = 4


def admit(
    backend: "MlxBackend",
    generation: Generation,
    prompt: Prompt,
    submitted_at: float,
    *,
    most_tokens: int | None = None,
) -> Row:
    """Return the row of a request, with its limits."""
    request = generation.request
    context = backend.info.context_length
    if len(prompt.tokens) + request.least_answer_tokens > context:
        raise PromptTooLong(_prompt_field(request), len(prompt.tokens), context)
    family = backend.answer_format(request, prompt)
    vocabulary = backend.vocabulary_of(request, prompt.beginning)
    generation.prompt_tokens = len(prompt.tokens)
    generation.vocabulary = backend.vocabulary
    continues = continues_text(request, prompt.beginning)
    memory_room = None
    if most_tokens is not None and request.max_tokens is None and most_tokens < context:
        memory_room = most_tokens - len(prompt.tokens)
    generation.setting = setting = RunSetting(
        model=backend.info.id,
        family=family,
        beginning=prompt.beginning,
        eos=tuple(sorted(backend.vocabulary.eos)),
        context_room=context - len(prompt.tokens),
        memory_room=memory_room,
        has_bytes=backend.vocabulary.raw is not None,
        strips_first_space=vocabulary.strips_first_space,
    )
    parse_calls = backend.call_parser(request)
    builder = AnswerBuilder(
        AnswerSetup(
            setting=setting,
            rules=request.stops,
            max_tokens=request.max_tokens,
            vocabulary=vocabulary,
            detokenizer=backend.detokenizer(
                vocabulary, prompt.tokens[-_NEIGHBOURS:] if continues else ()
            ),
            parse_calls=parse_calls,
            new_reader=readers(family.call_style, parse_calls),
            tells_spans=request.trace is TraceLevel.FULL,
        )
    )
    return Row(generation, prompt, builder, submitted_at)


def check(backend: "MlxBackend", generation: Generation) -> None:
    """Check everything that can be checked before the prompt is rendered."""
    request = generation.request
    backend.check_form(request, generation.form)
    size = backend.vocabulary.size
    if request.max_tokens is not None and request.max_tokens < 0:
        raise InvalidRequest("max_tokens", f"must be at least 0, not {request.max_tokens}")
    if (budget := request.thinking_budget) is not None:
        if budget < 0:
            raise InvalidRequest("thinking_budget", f"must be at least 0, not {budget}")
        if request.prompt is not None:
            raise InvalidRequest(
                "thinking_budget",
                "the answer to a raw prompt is plain text, whose reasoning cannot be told apart; "
                "send messages instead",
            )
    if not 0 <= request.top_logprobs <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    _check_chosen(request.chosen_logprobs, "chosen_logprobs", size)
    if request.prompt_scoring is not None:
        _check_scoring(request.prompt_scoring, size)
    for index, token_id in enumerate(request.stops.token_ids):
        if not 0 <= token_id < size:
            raise InvalidRequest(
                f"stops.token_ids[{index}]",
                f"token id {token_id} is outside the vocabulary of {size}",
            )
    for token_id, _ in request.sampling.logit_bias:
        if not 0 <= token_id < size:
            raise InvalidRequest(
                "sampling.logit_bias", f"token id {token_id} is outside the vocabulary of {size}"
            )


def _check_scoring(wanted: PromptScoring, size: int) -> None:
    if wanted.start < 0:
        raise InvalidRequest("prompt_scoring.start", f"must be at least 0, not {wanted.start}")
    if not 0 <= wanted.top <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("prompt_scoring.top", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    _check_chosen(wanted.token_ids, "prompt_scoring.token_ids", size)


def _check_chosen(token_ids: Sequence[int], field: str, size: int) -> None:
    if len(token_ids) > MAX_CHOSEN_IDS:
        raise InvalidRequest(field, f"at most {MAX_CHOSEN_IDS} ids are possible")
    for token_id in token_ids:
        if not 0 <= token_id < size:
            raise InvalidRequest(field, f"token id {token_id} is outside the vocabulary of {size}")


def wanted(requests: Sequence[GenerationRequest], prompts: Sequence[Prompt] = ()) -> Wanted:
    """Return the memory that the choices of a request need."""
    lengths = [len(one.tokens) for one in prompts] or [
        len(one.prompt) if isinstance(one.prompt, tuple) else 0 for one in requests
    ]
    return Wanted(
        [(length, one.max_tokens) for length, one in zip(lengths, requests, strict=True)],
        choices_field(requests),
        _prompt_field(requests[0]),
    )


def _prompt_field(request: GenerationRequest) -> str:
    return "messages" if request.prompt is None else "prompt"
