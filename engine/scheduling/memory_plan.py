"""Memory: of all models together, for one model's answers, and whether a request fits into it.

A batch gives each of its sequences as much memory as the longest of its group takes. Reads sizes of
files, never the weights.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import InvalidRequest, MemoryShort, ModelLoadFailed
from engine.inference.backend import Prompt
from engine.library.memory_need import Memory, MemoryNeed, max_cache_bytes, memory
from engine.library.model_files import model_name
from engine.library.model_info import ModelInfo
from engine.scheduling.admission import choices_field
from engine.values.limits import Limits
from engine.values.request import GenerationRequest
from engine.wording import counted, format_size


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """The memory of one model, in bytes.

    Attributes:
        used: Of its weights and caches; ``caches`` of the caches alone.
        unfilled: What its caches may still take of their estimate.
        growing: What the caches of its running answers will take beyond their present size.
        shared: The part of its weights in common with models of the same ``base``.
    """

    name: str
    is_pinned: bool
    used: int = 0
    caches: int = 0
    unfilled: int = 0
    growing: int = 0
    base: Path | None = None
    shared: int = 0

    @property
    def planned(self) -> int:
        return self.used + max(self.unfilled, self.growing)

    @property
    def reserved(self) -> int:
        """Reserved for it, and not taken yet."""
        return max(self.growing, self.unfilled) if self.is_pinned else self.growing


def count_shared_once(models: Sequence[ModelMemory], base: Path | None = None) -> list[ModelMemory]:
    """Return the memory of models beside a model of ``base``, which has that base's weights."""
    counted, beside = {base}, []
    for model in models:
        beside.append(
            replace(model, used=model.used - model.shared) if model.base in counted else model
        )
        counted.add(model.base)
    return beside


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
        return model.caches_bytes(lengths) + beside_bytes <= self.free

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
        ends = [
            (min(model.context_length, length + (request.max_tokens or 1)), length)
            for length, request in zip(lengths, requests, strict=True)
        ]
        needed = model.caches_bytes([tokens for tokens, _ in ends])
        if needed > self.total:
            raise _never_fits(model, requests, *max(ends), needed, self.total)
        self.check_available(needed)

    def check_available(self, needed: int) -> None:
        """Refuse what takes more bytes than there are without other programs' memory."""
        if needed > self.after_eviction:
            raise MemoryShort(format_size(needed), format_size(self.after_eviction))

    def max_tokens(self, model: ModelInfo, answers: int = 1) -> int:
        return model.answer_cache.tokens_in(self.after_eviction // answers, model.context_length)


class MemoryPlanner:
    """The memory that all models may take together."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.memory_bytes
        self._context_bytes = limits.context_bytes
        self._prompt_cache_bytes = limits.prompt_cache_bytes

    @property
    def max_bytes(self) -> int:
        return memory().usable if self._limit is None else self._limit

    def check(self, folder: Path, size: MemoryNeed, pinned: Sequence[ModelMemory]) -> None:
        """Refuse one of several models that does not fit beside the pinned ones."""
        limit = self.max_bytes
        pinned_bytes = sum(model.planned for model in pinned)
        if size.total <= limit - pinned_bytes:
            return
        available = f"models may take {format_size(limit)} together"
        remedy = "choose a smaller model, or one of fewer bits"
        if size.total <= limit:
            names = ", ".join(model.name for model in pinned)
            available += f", of which {names} take {format_size(pinned_bytes)} and are pinned"
            remedy = "unpin one of them"
        raise ModelLoadFailed(
            f"not enough memory: {model_name(folder)} {_parts(size)}; {available}: {remedy}"
        )

    def check_alone(self, folder: Path, size: MemoryNeed) -> None:
        """Refuse an only model that certainly does not fit."""
        total = memory().total
        if self._limit is not None:
            self.check(folder, size, [])
        elif total and size.weights > total:
            raise ModelLoadFailed(
                f"not enough memory: {model_name(folder)} {_parts(size)}; this computer has "
                f"{format_size(total)}: choose a smaller model, or one of fewer bits"
            )

    def fits(self, size: MemoryNeed, others: Sequence[ModelMemory], resident: int = 0) -> bool:
        """Whether a model fits beside others, of which one has ``resident`` bytes of its weights.

        Those do not count in ``others``.
        """
        if size.total > self.max_bytes - sum(other.planned for other in others):
            return False
        if self._limit is not None or not others:
            return True
        # Other programs use memory, too. And memory that the others will still fill is not free.
        unfilled = sum(other.unfilled for other in others)
        return size.total - resident <= memory().available - unfilled

    def cache_bytes(self, size: MemoryNeed | None) -> int:
        if size is None:
            return self._prompt_cache_bytes
        return min(self._prompt_cache_bytes, size.cache + size.headroom)

    def plan(self, own: ModelMemory, info: ModelInfo, others: Sequence[ModelMemory]) -> MemoryPlan:
        """Return the memory for the answers of a model beside the others.

        Memory that is planned for other models counts only while they use it, unless they are
        pinned. Caches of the model itself count as available: it has them already.
        """
        if (size_bytes := self._context_bytes) is not None:
            return MemoryPlan(size_bytes, size_bytes, size_bytes)
        free, prompts = self._caches(info, self._machine(own, info, others))
        pinned = [other for other in others if other.is_pinned]
        later = self._machine(own, info, pinned)
        if self._limit is None:
            evicted = sum(other.used for other in others if not other.is_pinned)
            later = Memory(later.usable, later.available + evicted, later.total)
        after_eviction, _ = self._caches(info, later)
        total, _ = self._caches(info, Memory(self.max_bytes, self.max_bytes))
        return MemoryPlan(free, after_eviction, total, prompts)

    def _caches(self, info: ModelInfo, available: Memory) -> tuple[int, int]:
        return max_cache_bytes(
            available,
            info.answer_cache,
            info.weights_bytes,
            self._prompt_cache_bytes,
            can_see=info.can_see,
        )

    def _machine(self, own: ModelMemory, info: ModelInfo, others: Sequence[ModelMemory]) -> Memory:
        reserved = sum(other.reserved for other in others)
        taken = sum(other.used for other in others) + reserved
        if self._limit is None:
            now = memory()
            available = now.available + own.caches - reserved
            return Memory(now.usable - taken, max(0, available), now.total)
        left = max(0, self._limit - taken)
        return Memory(left, max(0, left - info.weights_bytes))


def _never_fits(
    model: ModelInfo,
    requests: Sequence[GenerationRequest],
    tokens: int,
    prompt: int,
    needed: int,
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
        f"not enough memory: {f'{count} × ' if count > 1 else ''}"
        f"{'up to ' if needed < count * one else ''}{counted(tokens, 'token')} need "
        f"{format_size(needed)}, {format_size(available)} available. {remedy}.",
    )


def _parts(size: MemoryNeed) -> str:
    return (
        f"needs {format_size(size.total)} of memory ({format_size(size.weights)} of "
        f"weights, {format_size(size.cache)} for {size.context:,} tokens of context, "
        f"{format_size(size.headroom)} to compute with)"
    )
