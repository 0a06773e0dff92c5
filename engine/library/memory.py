"""Whether a model fits into this machine's memory, before it is loaded. Any thread."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from engine.library.cache_size import CacheSize, estimated
from engine.library.models import context_length, read_json, weights_size

# The context that is reckoned with, where the model's own is longer.
USUAL_CONTEXT = 8192
_LEAST_HEADROOM_BYTES = 256 << 20
_HEADROOM_SHARE = 0.1
# Answers of so many tokens are taken on however little memory seems to be free: much of what the
# system counts as used can be moved out of the way.
_LEAST_TOKENS = 4096
# Of what is free, kept prompts are reckoned with at most this much.
_KEPT_SHARE = 0.25
# By default macOS lets the graphics processor have about this much of the memory.
_MAC_SHARE = 0.75


class Fit(StrEnum):
    """How a model and a machine's memory go together."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Memory:
    """What a machine has, in bytes.

    Attributes:
        usable: What models may have of it at most.
        available: What is free now, or can be freed at once.
    """

    usable: int
    available: int


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a model needs, in bytes.

    Attributes:
        weights: The weights as they are in their files.
        cache: Keys and values of ``context`` tokens.
        headroom: What computing takes beside them.
        context: Tokens of context that are reckoned with.
    """

    weights: int
    cache: int
    headroom: int
    context: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.headroom

    def fit(self, memory: Memory) -> Fit:
        """Return how it goes together with a machine's memory."""
        if self.total > memory.usable:
            return Fit.TOO_LARGE
        return Fit.TIGHT if self.total > memory.available else Fit.FITS


def memory() -> Memory:
    """Return what this machine has now."""
    now = psutil.virtual_memory()
    share = _MAC_SHARE if sys.platform == "darwin" else 1.0
    return Memory(int(now.total * share), int(now.available))


def need(folder: Path) -> MemoryNeed:
    """Return what the model of a folder needs.

    Raises:
        ModelLoadFailed: Its configuration cannot be read.
    """
    config = read_json(folder / "config.json")
    weights = weights_size(folder)
    context = min(context_length(config), USUAL_CONTEXT)
    return MemoryNeed(
        weights=weights,
        cache=estimated(config).bytes_of(context),
        headroom=max(_LEAST_HEADROOM_BYTES, int(weights * _HEADROOM_SHARE)),
        context=context,
    )


def room_for_caches(now: Memory, size: CacheSize, weights: int, kept: int) -> int:
    """Return the bytes that the caches of all running answers may take together.

    Args:
        now: What the machine has, with the model's weights in memory.
        size: What one answer's cache takes.
        weights: Bytes of the weights.
        kept: Most bytes kept of earlier prompts.
    """
    free = min(now.available, now.usable - weights)
    kept = min(kept, int(free * _KEPT_SHARE))
    headroom = max(_LEAST_HEADROOM_BYTES, int(weights * _HEADROOM_SHARE))
    return max(free - kept - headroom, size.allocated_bytes(_LEAST_TOKENS))
