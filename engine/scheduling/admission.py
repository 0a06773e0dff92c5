"""How a request is checked, prepared on threads beside the engine's, and accepted. No MLX."""

from array import array
from collections import abc
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.conversation.prompt_parts import BEGUN, OPENING
from engine.errors import InvalidRequest, PromptTooLong
from engine.generation import Generation
from engine.grammar.masks import is_constrained
from engine.inference.backend import Prompt
from engine.inference.vision.pictures import digest_of
from engine.output.answer import AnswerBuilder, DecodingSetting
from engine.output.channels import continues_text
from engine.output.families import Family
from engine.scheduling.running_answer import RunningAnswer
from engine.stopping.repetition import RepetitionScope
from engine.values.events import PromptPart
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.unanswered_prompt import Part, PictureTokens, UnansweredPrompt

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend
    from engine.inference.vision.vision import PlacedPictures

MAX_TOP_LOGPROBS = 20
# How many last tokens of a prompt can change the text of an answer's first token.
_NEIGHBOURS = 4


def admit(
    backend: "MlxBackend",
    generation: Generation,
    prompt: Prompt,
    submitted_at: float,
    *,
    max_tokens: int | None = None,
) -> RunningAnswer:
    """Return the answer of a request, with its limits."""
    request = generation.request
    context = backend.info.context_length
    _check_length(request, prompt, context)
    family = backend.answer_format(request, prompt)
    vocabulary = backend.vocabulary_of(request, prompt.beginning)
    left_out = () if generation.grammar is None else generation.grammar.left_out
    generation.not_applied = (*request.not_applied, *prompt.not_applied, *left_out)
    generation.prompt_tokens = len(prompt.tokens)
    generation.vocabulary = backend.vocabulary
    if request.trace is not TraceLevel.OFF and request.prompt is None:
        generation.rendered = array("i", prompt.tokens[: prompt.rendered.tokens])
    continues = continues_text(request, prompt.beginning)
    memory_budget = None
    if max_tokens is not None and request.max_tokens is None and max_tokens < context:
        memory_budget = max_tokens - len(prompt.tokens)
    generation.setting = setting = DecodingSetting(
        model=backend.info.id,
        family=family,
        beginning=prompt.beginning,
        eos=tuple(end.token_id for end in backend.info.eos),
        eos_sources=tuple(end.source for end in backend.info.eos),
        context_budget=context - len(prompt.tokens),
        memory_budget=memory_budget,
        has_bytes=backend.vocabulary.raw is not None,
        strips_first_space=vocabulary.strips_first_space,
        repetition=_repetition_scope(backend, request, family),
    )
    builder = AnswerBuilder(
        setting=setting,
        rules=request.stops,
        max_tokens=request.max_tokens,
        vocabulary=vocabulary,
        detokenizer=backend.detokenizer(
            vocabulary, prompt.tokens[-_NEIGHBOURS:] if continues else ()
        ),
        new_reader=backend.call_readers(request),
        reports_spans=request.trace is TraceLevel.FULL,
    )
    return RunningAnswer(generation, prompt, builder, submitted_at)


def _repetition_scope(
    backend: "MlxBackend", request: GenerationRequest, family: Family
) -> RepetitionScope:
    if request.prediction is not None or is_constrained(request):
        return RepetitionScope.NOTHING
    if request.stops.repetition is not None and backend.can_end_reasoning(request, family):
        return RepetitionScope.REASONING
    return RepetitionScope.ANSWER


def check(backend: "MlxBackend", request: GenerationRequest) -> None:
    """Check everything that can be checked before the prompt is rendered."""
    backend.check_request(request)
    size = backend.vocabulary.size
    if request.max_tokens is not None and request.max_tokens < 0:
        raise InvalidRequest("max_tokens", f"must be at least 0, not {request.max_tokens}")
    if (budget := request.thinking_budget) is not None:
        if budget < 0:
            raise InvalidRequest("thinking_budget", f"must be at least 0, not {budget}")
        if request.prompt is not None:
            raise InvalidRequest(
                "thinking_budget",
                "the answer to a raw prompt is plain text, which has no reasoning; "
                "send messages instead",
            )
    if not 0 <= request.top_logprobs <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    if (scoring := request.prompt_scoring) is not None:
        if scoring.start < 0:
            raise InvalidRequest("prompt_scoring.start", f"must be at least 0, not {scoring.start}")
        if not 0 <= scoring.top <= MAX_TOP_LOGPROBS:
            raise InvalidRequest("prompt_scoring.top", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    for token_id, _ in request.sampling.logit_bias:
        _check_id(token_id, "sampling.logit_bias", size)
    for token_id in () if request.fork is None else request.fork.tokens:
        _check_id(token_id, "fork", size)
    for index, token_id in enumerate(request.stops.token_ids):  # compared, never an index of logits
        _check_id(token_id, f"stops.token_ids[{index}]", backend.vocabulary.id_count)


def _check_length(request: GenerationRequest, prompt: Prompt, context: int) -> None:
    if len(prompt.tokens) + request.min_answer_tokens > context:
        field = "messages" if request.prompt is None else "prompt"
        raise PromptTooLong(field, len(prompt.tokens), context)


def render_prompt(backend: "MlxBackend", request: GenerationRequest) -> UnansweredPrompt:
    """Return the prompt of a request that nobody answers; refuse what an answer would be refused.

    On any thread but the engine's: compiling a grammar may take seconds.
    """
    check(backend, request)
    grammar = backend.form(request) if is_constrained(request) else None
    prompt = backend.render(request)
    _check_length(request, prompt, backend.info.context_length)
    left_out = () if grammar is None else grammar.left_out
    rendered, pieces = prompt.rendered, tuple(backend.vocabulary.pieces(prompt.tokens))
    text, opening = "".join(pieces[: rendered.tokens]), rendered.opening
    end, whole = len(text), len("".join(pieces))
    if rendered.text and text != rendered.text:  # a tokenizer may change white space and accents
        rendered = replace(rendered, text=text)
    parts = rendered.parts
    if opening and text.endswith(opening):
        start = end - len(opening)
        parts += (Part(PromptPart.ANSWER_OPENING, 0, "", start, end, OPENING),)
    if request.begun and parts:
        parts += (Part(PromptPart.MESSAGE, 0, "assistant", end, whole, BEGUN),)
    return UnansweredPrompt(
        prompt.tokens,
        backend.detokenize(prompt.tokens),
        pieces,
        (*prompt.not_applied, *left_out),
        rendered.missing,
        parts,
        () if prompt.pictures is None else tuple(_picture_tokens(request, prompt.pictures)),
        "" if prompt.pictures is None else _marked(backend, "".join(pieces), prompt.pictures),
    )


def _marked(backend: "MlxBackend", text: str, placed: "PlacedPictures") -> str:
    """Return a prompt with a mark in place of each picture's tokens."""
    vision = backend.batch.vision
    parts: list[str] = []
    for picture in placed.pictures:
        before, found, text = text.partition(picture.text)
        if vision is None or not found:
            return ""
        parts += [before, vision.mark]
    return "".join((*parts, text))


def _picture_tokens(
    request: GenerationRequest, placed: "PlacedPictures"
) -> abc.Iterator[PictureTokens]:
    """Yield the tokens of each picture; a template may change the order of pictures."""
    digests = [digest_of(picture) for picture in request.all_pictures]
    for indices, picture in zip(placed.token_indices, placed.pictures, strict=True):
        first, last = int(indices[0]), int(indices[-1])
        found = PictureTokens(digests.index(picture.digest), first, last, picture.tokens)
        if placed.positions is not None and picture.grid is not None:
            ends = (tuple(placed.positions[:, at].tolist()) for at in (first, last))
            found = found._replace(grid=picture.grid[1:], positions=(next(ends), next(ends)))
        yield found


def _check_id(token_id: int, field: str, size: int) -> None:
    if not 0 <= token_id < size:
        raise InvalidRequest(field, f"token id {token_id} is outside the vocabulary of {size}")


def prepare(backend: "MlxBackend", generations: abc.Sequence[Generation]) -> tuple[Prompt, ...]:
    """Compile the grammars of a request's choices, perhaps for seconds, and render its prompts."""
    prompts: dict[object, Prompt] = {}
    for generation in generations:
        request = generation.request
        if is_constrained(request):
            generation.grammar = backend.form(request)
        if request.prompt_key not in prompts:
            prompts[request.prompt_key] = backend.render(request)
    return tuple(prompts[generation.request.prompt_key] for generation in generations)


def choices_field(requests: abc.Sequence[GenerationRequest]) -> str:
    """Return the field that requests several answers: ``n``, or a list of prompts."""
    return "n" if len({request.prompt_key for request in requests}) < len(requests) else "prompt"
