"""The memory that a model and its caches need, known before it is loaded. Any thread.

Three kinds of layers: those keeping every token, a window of the last tokens, or a fixed state.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.library.adapters import check_adapter
from engine.library.architectures import ASSISTANTS, sees
from engine.library.configuration import architecture_of, context_length, is_count, text_part
from engine.library.model_files import read_json
from engine.library.weights import weights_of

# The length of context to plan for, if the model's own is longer.
USUAL_CONTEXT = 8192
PICTURE_BYTES = 128 << 20
"""Kept by a model that sees, of pictures of recent requests: half of it decoded, half features."""
# mlx-lm allocates the memory of a cache for this many tokens at a time.
STEP_TOKENS = 256


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The memory of one answer's cache, in bytes; all zero where it is not known.

    Attributes:
        windows: For layers that keep a window of the last tokens: its tokens, and bytes of each.
    """

    token_bytes: int = 0
    fixed_bytes: int = 0
    windows: tuple[tuple[int, int], ...] = ()

    def __add__(self, other: "CacheSize") -> "CacheSize":
        return CacheSize(
            self.token_bytes + other.token_bytes,
            self.fixed_bytes + other.fixed_bytes,
            self.windows + other.windows,
        )

    def bytes_of(self, tokens: int) -> int:
        windows = sum(min(tokens, length) * token_bytes for length, token_bytes in self.windows)
        return self.fixed_bytes + tokens * self.token_bytes + windows

    def allocated_bytes(self, tokens: int) -> int:
        """Return the memory that mlx-lm reserves for ``tokens`` tokens."""
        return self.bytes_of(-(-tokens // STEP_TOKENS) * STEP_TOKENS)

    def tokens_in(self, size_bytes: int, limit: int) -> int:
        """Return for how many tokens some memory is enough, at most ``limit``."""
        if self.allocated_bytes(limit) <= size_bytes:
            return limit
        steps = range(1, -(-limit // STEP_TOKENS))
        fitting = bisect_right(steps, size_bytes, key=lambda n: self.bytes_of(n * STEP_TOKENS))
        return fitting * STEP_TOKENS


def estimated(
    config: Mapping[str, Any], value_bytes: int = 2, *, has_head: bool = False
) -> CacheSize:
    """Estimate a model's cache from its configuration, without states that never grow."""
    scope = {**config, **text_part(config)}
    layers = _number(scope, "num_hidden_layers", "n_layer")
    token_bytes = _layer_values(scope) * value_bytes
    kinds = _layer_kinds(scope, layers)
    window = _number(scope, "sliding_window", "attention_chunk_size")
    in_window = kinds["window"] if window else 0
    return CacheSize(
        token_bytes=(kinds["full"] + kinds["window"] - in_window + has_head) * token_bytes,
        windows=((window, in_window * token_bytes),) if in_window and token_bytes else (),
    )


def _layer_values(scope: Mapping[str, Any]) -> int:
    latent = _number(scope, "kv_lora_rank")
    if latent:
        return latent + _number(scope, "qk_rope_head_dim")
    heads = _number(scope, "num_attention_heads", "n_head")
    width = _number(scope, "head_dim")
    width = width or (_number(scope, "hidden_size", "n_embd") // heads if heads else 0)
    return 2 * (_number(scope, "num_key_value_heads") or heads) * width


def _layer_kinds(scope: Mapping[str, Any], layers: int) -> Counter[str]:
    """Return how many layers keep every token (``full``) and how many a window."""
    named = scope.get("layer_types")
    if isinstance(named, list) and len(named) == layers:
        return Counter(_kind(str(kind)) for kind in named)
    if scope.get("use_sliding_window") is not False:
        every = _number(scope, "sliding_window_pattern")
        if every:
            return Counter(full=layers // every, window=layers - layers // every)
    every = _number(scope, "full_attention_interval")
    return Counter(full=layers // every if every else layers)


def _kind(name: str) -> str:
    if "sliding" in name or "chunked" in name:
        return "window"
    return "full" if "attention" in name and "linear" not in name else "state"


def _number(scope: Mapping[str, Any], *names: str) -> int:
    values = (scope.get(name) for name in names)
    return next((value for value in values if is_count(value)), 0)


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


def need(folder: Path, draft: Path | None = None, base: Path | None = None) -> MemoryNeed:
    """Return the memory that the model of a folder needs, or an adapter's with its base.

    Raises ``ModelLoadFailed``.
    """
    adapter = 0 if base is None else check_adapter(folder).stored_bytes
    config = read_json((base or folder) / "config.json")
    weights, size = _parts_of(base or folder, config)
    weights += adapter
    if draft is not None:
        more, beside = _parts_of(draft, read_json(draft / "config.json"), uses_head=False)
        weights, size = weights + more, size + beside
    return need_of(weights, size, context_length(config), can_see=sees(config))


def _parts_of(
    folder: Path, config: dict[str, Any], *, uses_head: bool = True
) -> tuple[int, CacheSize]:
    """Return what the weights of a folder take, and the caches of an answer."""
    weights = weights_of(folder)
    if architecture_of(config) in ASSISTANTS:  # these have no cache
        return weights.size_bytes, CacheSize()
    size = estimated(config, weights.value_bytes, has_head=weights.has_head and uses_head)
    return weights.size_bytes, size


def need_of(weights: int, size: CacheSize, context: int, *, can_see: bool = False) -> MemoryNeed:
    """Return the memory that a model needs; the model need not be on this machine."""
    context = min(context, USUAL_CONTEXT)
    return MemoryNeed(
        weights=weights,
        cache=size.bytes_of(context),
        headroom=_headroom(weights, can_see),
        context=context,
    )


def _headroom(weights: int, can_see: bool) -> int:
    return max(256 << 20, weights // 10) + (PICTURE_BYTES if can_see else 0)


def max_cache_bytes(
    now: Memory, size: CacheSize, weights: int, kept: int, *, can_see: bool = False
) -> tuple[int, int]:
    """Return the bytes that the caches of all running answers, and of cached prompts, may take.

    4,096 tokens are accepted however little memory seems to be free: the system can free much of
    the memory that it reports as used.
    """
    free = min(now.available, now.usable - weights)
    kept = min(kept, free // 4)
    return max(free - kept - _headroom(weights, can_see), size.allocated_bytes(4096)), max(0, kept)
