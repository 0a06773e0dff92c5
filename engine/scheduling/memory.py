"""Memory for the caches of answers: the plan of one model, and whether a request fits into it.

A batch gives each of its sequences as much memory as its longest takes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest, MemoryShort
from engine.inference.backend import Prompt
from engine.library.model_info import ModelInfo
from engine.scheduling.preparation import choices_field
from engine.values.request import GenerationRequest
from engine.wording import counted

_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """The memory that the choices of one request need.

    Attributes:
        lengths: For each choice, the tokens of its prompt, 0 before that is rendered, and its
            ``max_tokens``.
        choices_field: The field that sets the number of choices.
        prompt_field: The field of the prompt.
    """

    lengths: Sequence[tuple[int, int | None]]
    choices_field: str
    prompt_field: str


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes for the caches of one model's answers.

    Attributes:
        free: Available beside the other models as they are.
        after_eviction: Available once the other models have been unloaded.
        total: Available once other programs have ended, too.
        prompts: For cached prompts beside answers that use all of ``free``; None without a limit.
    """

    free: int
    after_eviction: int
    total: int
    prompts: int | None = None

    def fits(self, model: ModelInfo, lengths: Collection[int]) -> bool:
        """Whether answers of these lengths, in tokens with their prompts, fit together."""
        longest = max(lengths, default=0)
        return len(lengths) * model.answer_cache.allocated_bytes(longest) <= self.free

    def check(self, model: ModelInfo, request: MemoryRequest) -> None:
        """Refuse a request that does not fit while no other answer runs.

        Raises:
            InvalidRequest: It can never fit.
            MemoryShort: It fits once other programs or models use less.
        """
        count = len(request.lengths)
        tokens, prompt = max(
            (min(model.context_length, prompt + (limit or 1)), prompt)
            for prompt, limit in request.lengths
        )
        needed = count * model.answer_cache.allocated_bytes(tokens)
        if needed > self.total:
            raise _never_fits(model, request, count, tokens, prompt, self.total)
        if needed > self.after_eviction:
            raise MemoryShort(_size(needed), _size(self.after_eviction))

    def max_tokens(self, model: ModelInfo, answers: int = 1) -> int:
        """Return how many tokens each of some answers can have while nothing else runs."""
        return model.answer_cache.tokens_in(self.after_eviction // answers, model.context_length)


def memory_request(
    requests: Sequence[GenerationRequest], prompts: Sequence[Prompt] = ()
) -> MemoryRequest:
    """Return the memory that the choices of a request need."""
    lengths = [len(prompt.tokens) for prompt in prompts] or [
        len(request.prompt) if isinstance(request.prompt, tuple) else 0 for request in requests
    ]
    return MemoryRequest(
        [(length, request.max_tokens) for length, request in zip(lengths, requests, strict=True)],
        choices_field(requests),
        "messages" if requests[0].prompt is None else "prompt",
    )


def _never_fits(
    model: ModelInfo, request: MemoryRequest, count: int, tokens: int, prompt: int, available: int
) -> InvalidRequest:
    size, context = model.answer_cache, model.context_length
    one = size.allocated_bytes(tokens)
    each = size.tokens_in(available // count, context) - prompt
    each -= not prompt  # not rendered yet, it has at least one token
    if count > 1 and one <= available:
        field, fewer = request.choices_field, available // one
        remedy = f"Reduce it to {fewer:,}" if field == "n" else f"Send at most {fewer:,} prompts"
        remedy += f", or limit answers to {each:,} tokens" if each > 0 else ""
    elif (shorter := size.tokens_in(available, context) - prompt - (not prompt)) > 0:
        field, remedy = "max_tokens", f"Reduce it to {shorter:,}"
    else:
        field = request.prompt_field
        remedy = "Shorten the prompt" if prompt else "Choose a smaller model"
    return InvalidRequest(
        field,
        f"not enough memory: {f'{count} × ' if count > 1 else ''}{counted(tokens, 'token')} need "
        f"{_size(count * one)}, {_size(available)} available. {remedy}.",
    )


def _size(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return counted(size_bytes, "byte")
