"""The memory that all models may take together. Reads sizes of files, never the weights."""

from collections.abc import Sequence

from engine.errors import ModelLoadFailed
from engine.library.memory_need import Memory, MemoryNeed, cache_budget, memory, need
from engine.library.model_files import model_name
from engine.library.model_info import ModelInfo
from engine.scheduling.jobs import Source
from engine.scheduling.memory import MemoryPlan
from engine.scheduling.model_slot import ModelSlot
from engine.values.limits import Limits
from engine.wording import format_size


class MemoryBudget:
    """The memory that all models may take together."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.memory_bytes
        self._context_bytes = limits.context_bytes
        self._prompt_cache_bytes = limits.prompt_cache_bytes

    @property
    def max_bytes(self) -> int:
        return memory().usable if self._limit is None else self._limit

    def need_of(self, source: Source) -> MemoryNeed | None:
        try:
            return need(source.folder, source.draft)
        except (ModelLoadFailed, OSError):
            return None

    def check(self, source: Source, size: MemoryNeed, pinned: Sequence[ModelSlot]) -> None:
        """Refuse one of several models that does not fit beside the pinned ones."""
        limit = self.max_bytes
        pinned_bytes = sum(map(_planned_bytes, pinned))
        if size.total <= limit - pinned_bytes:
            return
        available = f"models may take {format_size(limit)} together"
        remedy = "choose a smaller model, or one of fewer bits"
        if size.total <= limit:
            names = ", ".join(model.name for model in pinned)
            available += f", of which {names} take {format_size(pinned_bytes)} and are pinned"
            remedy = "unpin one of them"
        raise ModelLoadFailed(f"{model_name(source.folder)} {_parts(size)}; {available}: {remedy}")

    def check_alone(self, source: Source, size: MemoryNeed) -> None:
        """Refuse an only model that certainly does not fit."""
        total = memory().total
        if self._limit is not None:
            self.check(source, size, [])
        elif total and size.weights > total:
            raise ModelLoadFailed(
                f"{model_name(source.folder)} {_parts(size)}; this computer has "
                f"{format_size(total)}: choose a smaller model, or one of fewer bits"
            )

    def fits(self, size: MemoryNeed, others: Sequence[ModelSlot]) -> bool:
        if size.total > self.max_bytes - sum(map(_planned_bytes, others)):
            return False
        if self._limit is not None or not others:
            return True
        # Other programs use memory, too. And memory that the others will still fill is not free.
        unfilled = sum(model.unfilled_bytes for model in others)
        return size.total <= memory().available - unfilled

    def cache_bytes(self, size: MemoryNeed | None) -> int:
        if size is None:
            return self._prompt_cache_bytes
        return min(self._prompt_cache_bytes, size.cache + size.headroom)

    def plan(self, model: ModelSlot, info: ModelInfo, others: Sequence[ModelSlot]) -> MemoryPlan:
        """Return the memory for the answers of a model beside the others.

        Memory that is planned for other models counts only while they use it, unless they are
        pinned. Caches of the model itself count as available: it has them already.
        """
        if (size_bytes := self._context_bytes) is not None:
            return MemoryPlan(size_bytes, size_bytes, size_bytes)
        free, prompts = self._caches(info, self._machine(model, info, others))
        pinned = [other for other in others if other.is_pinned]
        later = self._machine(model, info, pinned)
        if self._limit is None:
            evicted = sum(other.used_bytes for other in others if not other.is_pinned)
            later = Memory(later.usable, later.available + evicted, later.total)
        after_eviction, _ = self._caches(info, later)
        total, _ = self._caches(info, Memory(self.max_bytes, self.max_bytes))
        return MemoryPlan(free, after_eviction, total, prompts)

    def _caches(self, info: ModelInfo, available: Memory) -> tuple[int, int]:
        return cache_budget(
            available, info.answer_cache, info.weights_bytes, self._prompt_cache_bytes
        )

    def _machine(self, model: ModelSlot, info: ModelInfo, others: Sequence[ModelSlot]) -> Memory:
        reserved = sum(map(_reserved_bytes, others))
        taken = sum(other.used_bytes for other in others) + reserved
        if self._limit is None:
            now = memory()
            available = now.available + model.cache_used_bytes - reserved
            return Memory(now.usable - taken, max(0, available), now.total)
        left = max(0, self._limit - taken)
        return Memory(left, max(0, left - info.weights_bytes))


def _planned_bytes(model: ModelSlot) -> int:
    """Return the memory of a model: its weights, and its caches or their estimate, if more."""
    return model.used_bytes + max(model.unfilled_bytes, model.growing_bytes)


def _reserved_bytes(model: ModelSlot) -> int:
    """Return how much memory is reserved for a model that it has not taken yet."""
    if model.is_pinned:
        return max(model.growing_bytes, model.unfilled_bytes)
    return model.growing_bytes


def _parts(size: MemoryNeed) -> str:
    return (
        f"needs {format_size(size.total)} of memory ({format_size(size.weights)} of "
        f"weights, {format_size(size.cache)} for {size.context:,} tokens of context, "
        f"{format_size(size.headroom)} to compute with)"
    )
