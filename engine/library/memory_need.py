"""Whether a model fits into this machine's memory, before it is loaded. Any thread."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.library.architectures import ASSISTANTS
from engine.library.cache_size import CacheSize, estimated
from engine.library.configuration import architecture_of, context_length
from engine.library.model_files import read_json
from engine.library.weights import weights_of

# The length of context to plan for, if the model's own is longer.
USUAL_CONTEXT = 8192


class Fit(StrEnum):
    """Whether a model fits into a machine's memory."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Memory:
    """A machine's memory, in bytes."""

    usable: int
    available: int
    total: int = 0


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """The memory that a model needs, in bytes."""

    weights: int
    cache: int
    headroom: int
    context: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.headroom

    def fit(self, memory: Memory) -> Fit:
        if self.total > memory.usable:
            return Fit.TOO_LARGE
        return Fit.TIGHT if self.total > memory.available else Fit.FITS


def memory() -> Memory:
    """Return this machine's memory as it is now."""
    import psutil  # not every start of the program needs it

    now = psutil.virtual_memory()
    # By default macOS lets the graphics processor have about three quarters.
    share = 0.75 if sys.platform == "darwin" else 1.0
    return Memory(int(now.total * share), int(now.available), int(now.total))


def need(folder: Path, draft: Path | None = None) -> MemoryNeed:
    """Return the memory that the model of a folder needs; raises ``ModelLoadFailed``."""
    config = read_json(folder / "config.json")
    weights, size = _parts_of(folder, config)
    if draft is not None:
        more, beside = _parts_of(draft, read_json(draft / "config.json"), uses_head=False)
        weights, size = weights + more, size + beside
    return need_of(weights, size, context_length(config))


def _parts_of(
    folder: Path, config: dict[str, Any], *, uses_head: bool = True
) -> tuple[int, CacheSize]:
    """Return what the weights of a folder take, and the caches of an answer."""
    weights = weights_of(folder)
    if architecture_of(config) in ASSISTANTS:  # these have no cache
        return weights.size_bytes, CacheSize()
    size = estimated(config, weights.value_bytes, has_head=weights.has_head and uses_head)
    return weights.size_bytes, size


def need_of(weights: int, size: CacheSize, context: int) -> MemoryNeed:
    """Return the memory that a model needs; the model need not be on this machine."""
    context = min(context, USUAL_CONTEXT)
    return MemoryNeed(
        weights=weights,
        cache=size.bytes_of(context),
        headroom=_headroom(weights),
        context=context,
    )


def _headroom(weights: int) -> int:
    return max(256 << 20, weights // 10)


def cache_budget(now: Memory, size: CacheSize, weights: int, kept: int) -> tuple[int, int]:
    """Return the bytes that the caches of all running answers, and of cached prompts, may take.

    4,096 tokens are accepted however little memory seems to be free: the system can free much of
    the memory that it reports as used.
    """
    free = min(now.available, now.usable - weights)
    kept = min(kept, free // 4)
    return max(free - kept - _headroom(weights), size.allocated_bytes(4096)), max(0, kept)
