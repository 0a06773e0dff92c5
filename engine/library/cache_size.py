"""The memory of a model's caches for the tokens of an answer.

Three kinds of layers: those keeping every token, a window of the last tokens, or a fixed state.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.library.configuration import is_count, text_part

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
    """Return how many numbers of one token a layer keeps."""
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
