"""Whether a model fits into this machine's memory, before it is loaded. Any thread."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from engine.library.models import context_length, read_json, weights_size

# The context that is reckoned with, where the model's own is longer.
USUAL_CONTEXT = 8192
_BYTES_PER_VALUE = 2
_LEAST_HEADROOM_BYTES = 256 << 20
_HEADROOM_SHARE = 0.1
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
        cache=context * _cache_bytes_per_token(config),
        headroom=max(_LEAST_HEADROOM_BYTES, int(weights * _HEADROOM_SHARE)),
        context=context,
    )


def _cache_bytes_per_token(config: dict[str, Any]) -> int:
    """Return the size of one token's keys and values in all layers; 0 where it is not stated."""
    text = config.get("text_config")
    scope = {**config, **(text if isinstance(text, dict) else {})}

    def number(*names: str) -> int:
        values = (scope.get(name) for name in names)
        return next((value for value in values if isinstance(value, int) and value > 0), 0)

    heads = number("num_attention_heads", "n_head")
    width = number("head_dim") or (number("hidden_size", "n_embd") // heads if heads else 0)
    layers = number("num_hidden_layers", "n_layer")
    return 2 * layers * (number("num_key_value_heads") or heads) * width * _BYTES_PER_VALUE
