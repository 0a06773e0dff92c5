"""Checks whether one more model fits into memory beside the loaded ones; its errors have figures.

Engine thread only. Reads the sizes of files, never the weights.
"""

from collections.abc import Sequence

from engine.errors import ModelLoadFailed
from engine.library.memory import Memory, MemoryNeed, memory, need
from engine.library.models import model_name
from engine.scheduling.limits import Limits
from engine.scheduling.thread.models.lane import Lane
from engine.scheduling.thread.models.model_slot import Source
from engine.wording import size_in_words


class MemoryBudget:
    """The memory that all models may take together."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.memory_bytes
        self._kept_bytes = limits.prompt_cache_bytes

    def need_of(self, source: Source) -> MemoryNeed | None:
        """Return the memory that a model needs; None where its folder does not tell.

        Loading it then reports what is wrong with the folder.
        """
        try:
            return need(source.folder, source.draft)
        except (ModelLoadFailed, OSError):
            return None

    def check(self, source: Source, wanted: MemoryNeed, pinned: Sequence[Lane]) -> None:
        """Make sure that one of several models fits once all models that may leave have left."""
        most = self.most_bytes
        left = most - sum(map(held_bytes, pinned))
        if wanted.total <= left:
            return
        room = f"models may take {size_in_words(most)} together"
        remedy = "choose a smaller model, or one of fewer bits"
        if wanted.total <= most:
            names = ", ".join(lane.slot.name for lane in pinned)
            room += f", of which {names} take {size_in_words(most - left)} and are pinned"
            remedy = "unpin one of them"
        raise ModelLoadFailed(f"{model_name(source.folder)} {_words(wanted)}; {room}: {remedy}")

    def check_alone(self, source: Source, wanted: MemoryNeed) -> None:
        """Refuse an only model that certainly does not fit."""
        total = memory().total
        if self._most is not None:
            self.check(source, wanted, [])
        elif total and wanted.weights > total:
            raise ModelLoadFailed(
                f"{model_name(source.folder)} {_words(wanted)}; this computer has "
                f"{size_in_words(total)}: choose a smaller model, or one of fewer bits"
            )

    @property
    def most_bytes(self) -> int:
        """The memory that all models may take together."""
        return memory().usable if self._most is None else self._most

    def has_room(self, wanted: MemoryNeed, others: Sequence[Lane]) -> bool:
        """Whether a model fits beside others that stay."""
        if wanted.total > self.most_bytes - sum(map(held_bytes, others)):
            return False
        if self._most is not None or not others:
            return True
        # Other programs use memory, too. And memory that the others will still fill is not free.
        return wanted.total <= memory().available - sum(map(_unfilled_bytes, others))

    def kept_bytes(self, wanted: MemoryNeed | None) -> int:
        """Return the most bytes that one of several models may keep for earlier prompts."""
        if wanted is None:
            return self._kept_bytes
        return min(self._kept_bytes, wanted.cache + wanted.headroom)

    def machine(self, lane: Lane, others: Sequence[Lane]) -> Memory:
        """Return the memory that a model and its answers may use beside the other models.

        What is planned for other models counts only while they use it, unless they are pinned:
        answers of theirs that come later wait. What the model's own answers and cached prompts
        take counts as available: they have it already, and cached prompts give way.
        """
        unfilled = sum(map(_reserved_bytes, others))
        now, held = memory(), sum(map(taken_bytes, others)) + unfilled
        backend = lane.slot.backend
        weights = 0 if backend is None else backend.info.weights_bytes
        if self._most is None:
            own = max(0, taken_bytes(lane) - weights)
            return Memory(now.usable - held, max(0, now.available + own - unfilled), now.total)
        left = max(0, self._most - held)
        return Memory(left, max(0, left - weights), now.total)

    def largest(self, lane: Lane, others: Sequence[Lane]) -> Memory:
        """Return the memory that a model may use once all others have left that may."""
        pinned = [one for one in others if one.slot.status.is_pinned]
        free = self.machine(lane, pinned)
        if self._most is not None:
            return free
        freed = sum(taken_bytes(one) for one in others if one not in pinned)
        return Memory(free.usable, free.available + freed, free.total)


def taken_bytes(lane: Lane) -> int:
    """Return the memory that the weights and caches of a model take now."""
    backend = lane.slot.backend
    if backend is None:
        return 0
    return backend.info.weights_bytes + backend.cache_use.size_bytes + lane.rows_bytes


def held_bytes(lane: Lane) -> int:
    """Return the memory of a model: its weights, and its caches or their estimate, if more."""
    return taken_bytes(lane) + max(_unfilled_bytes(lane), lane.reserved_bytes - lane.rows_bytes)


def _reserved_bytes(lane: Lane) -> int:
    """Return how much memory is reserved for a model that it has not taken yet."""
    running = lane.reserved_bytes - lane.rows_bytes
    return max(running, _unfilled_bytes(lane)) if lane.slot.status.is_pinned else running


def _unfilled_bytes(lane: Lane) -> int:
    """Return how much of the estimate for a model's caches it has not taken yet."""
    backend = lane.slot.backend
    if lane.need is None or backend is None:
        return 0
    caches = taken_bytes(lane) - backend.info.weights_bytes
    return max(0, lane.need.cache + lane.need.headroom - caches)


def _words(wanted: MemoryNeed) -> str:
    return (
        f"needs {size_in_words(wanted.total)} of memory ({size_in_words(wanted.weights)} of "
        f"weights, {size_in_words(wanted.cache)} for {wanted.context:,} tokens of context, "
        f"{size_in_words(wanted.headroom)} to compute with)"
    )
