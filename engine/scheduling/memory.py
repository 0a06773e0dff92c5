"""Memory for the caches of answers: the plan of one model, and whether a request fits into it.

A batch gives each of its sequences as much memory as its longest takes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest, MemoryShort
from engine.inference.backend import Prompt
from engine.library.model_info import ModelInfo
from engine.scheduling.admission import choices_field
from engine.values.request import GenerationRequest
from engine.wording import counted, format_size


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes for the caches of one model's answers.

    Attributes:
        free: Available beside the other models as they are.
        after_eviction: Available once the other models have been unloaded.
        total: Available once other programs have ended, too.
        prompts_bytes: For cached prompts beside answers that use all of ``free``; None for any.
    """

    free: int
    after_eviction: int
    total: int
    prompts_bytes: int | None = None

    def fits(self, model: ModelInfo, lengths: Collection[int], beside_bytes: int) -> bool:
        """Whether answers of these lengths, in tokens with their prompts, fit beside other work."""
        longest = max(lengths, default=0)
        needed = len(lengths) * model.answer_cache.allocated_bytes(longest)
        return needed + beside_bytes <= self.free

    def check(
        self,
        model: ModelInfo,
        requests: Sequence[GenerationRequest],
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """Refuse choices that never fit (``InvalidRequest``) or not now (``MemoryShort``)."""
        lengths = [len(prompt.tokens) for prompt in prompts] or [
            len(request.prompt) if isinstance(request.prompt, tuple) else 0 for request in requests
        ]
        tokens, prompt = max(
            (min(model.context_length, length + (request.max_tokens or 1)), length)
            for length, request in zip(lengths, requests, strict=True)
        )
        needed = len(requests) * model.answer_cache.allocated_bytes(tokens)
        if needed > self.total:
            raise _never_fits(model, requests, tokens, prompt, self.total)
        self.check_available(needed)

    def check_available(self, needed: int) -> None:
        """Refuse what takes more bytes than there are without other programs' memory."""
        if needed > self.after_eviction:
            raise MemoryShort(format_size(needed), format_size(self.after_eviction))

    def max_tokens(self, model: ModelInfo, answers: int = 1) -> int:
        return model.answer_cache.tokens_in(self.after_eviction // answers, model.context_length)


def _never_fits(
    model: ModelInfo,
    requests: Sequence[GenerationRequest],
    tokens: int,
    prompt: int,
    available: int,
) -> InvalidRequest:
    size, context, count = model.answer_cache, model.context_length, len(requests)
    one = size.allocated_bytes(tokens)
    each = size.tokens_in(available // count, context) - prompt
    each -= not prompt  # not rendered yet, it has at least one token
    if count > 1 and one <= available:
        field, fewer = choices_field(requests), available // one
        remedy = f"Reduce it to {fewer:,}" if field == "n" else f"Send at most {fewer:,} prompts"
        remedy += f", or limit answers to {each:,} tokens" if each > 0 else ""
    elif (shorter := size.tokens_in(available, context) - prompt - (not prompt)) > 0:
        field, remedy = "max_tokens", f"Reduce it to {shorter:,}"
    else:
        field = "messages" if requests[0].prompt is None else "prompt"
        remedy = "Shorten the prompt" if prompt else "Choose a smaller model"
    return InvalidRequest(
        field,
        f"not enough memory: {f'{count} × ' if count > 1 else ''}{counted(tokens, 'token')} need "
        f"{format_size(count * one)}, {format_size(available)} available. {remedy}.",
    )
