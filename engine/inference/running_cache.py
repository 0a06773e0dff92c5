"""The keys and values of the sequences that decode together. Engine thread.

mlx-lm right-aligns them in one block and hides the padding on the left by a mask. It makes the mask
at every step, and every layer applies it, even where nothing is padded: there is none here then.
"""

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    RotatingKVCache,
    make_prompt_cache,
)

from engine.inference.mlx_lm_internals import fill_window


class RunningKVCache(BatchKVCache):  # type: ignore[misc]  # mlx-lm has no types
    """A ``BatchKVCache`` without needless masks."""

    left_padding: Any
    offset: Any
    # Whether no row has padding, and the paddings for which that was checked.
    _is_even = False
    _known_for: Any = None

    def make_mask(self, N: int, return_array: bool = False, **options: Any) -> Any:  # noqa: N803
        """Return the mask for the next ``N`` tokens of each row; None where it hides nothing."""
        has_window = options.get("window_size") is not None
        if N == 1 and not return_array and not has_window and self._needs_no_mask():
            return None
        return super().make_mask(N, return_array, **options)

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        """Add keys and values of shape (rows, heads, tokens, size); return all of them."""
        updated = super().update_and_fetch(keys, values)
        if keys.shape[2] == 1 and self._needs_no_mask():
            # The offset is known without computing: mlx-lm's lazy sum is never evaluated.
            self.offset = mx.array([self.size()] * keys.shape[0])
        return updated

    def _needs_no_mask(self) -> bool:
        if self._known_for is not self.left_padding:
            self._known_for = self.left_padding
            self._is_even = not any(self.left_padding.tolist())
        return self._is_even

    def filter(self, batch_indices: Any) -> None:
        super().filter(batch_indices)
        self._known_for = None

    def finalize(self) -> None:
        super().finalize()
        self._known_for = None


def cut(parts: Sequence[RunningKVCache], shared: int, more: Sequence[int]) -> None:
    """Remove the last ``shared`` tokens of all rows, then ``more[row]`` of each; one row has 0."""
    for part in parts:
        part.trim(shared)
        if any(more):
            part.prepare(right_padding=list(more))
            part.finalize()
    # Rows that are cut leave empty positions on their left.
    # If every row has this many empty positions on its left, copying the block to remove them pays.
    if parts and any(more) and min(parts[0].left_padding.tolist()) >= 64:
        for part in parts:
            part.filter(list(range(len(more))))


def parts_of(cache: Sequence[Any]) -> Iterator[Any]:
    """Return the parts of a cache, those of a ``CacheList`` one by one."""
    for part in cache:
        if isinstance(part, CacheList):
            yield from parts_of(part.caches)
        else:
            yield part


class SoleCache:
    """A part of the cache of a sequence that is alone in its batch, as the model itself made it.

    A class of mlx-lm's caches is added to it: this has what mlx-lm's batches ask of every part.
    """

    # The part's own class.
    kind: type

    @staticmethod
    def merge(parts: Sequence[Any]) -> Any:
        [part] = parts
        return part

    def filter(self, batch_indices: Any) -> None:
        """Keep the only sequence: mlx-lm drops the whole part where none stays."""

    def extract(self, idx: int) -> Any:
        """Return a part that no longer belongs to a batch; arrays are not copied."""
        part = copy.deepcopy(self)
        part.__class__ = self.kind
        return part


@functools.cache
def _sole_kind(kind: type) -> type:
    return type(kind.__name__, (SoleCache, kind), {"kind": kind})


def is_sole(fresh: Sequence[Any]) -> bool:
    """Whether mlx-lm has no kind of cache for several sequences of a model with a fresh cache."""
    return any(not hasattr(part, "merge") for part in parts_of(fresh))


def batched(cache: list[Any] | None, model: Any) -> list[Any]:
    """Return the cache of a sequence, None for an empty one, as it joins a batch."""
    joining = make_prompt_cache(model) if cache is None else cache
    for part in joining if is_sole(joining) else ():
        kind: Any = type(part)
        part.__class__ = _sole_kind(kind)
    return list(joining)


def extracted(cache: Sequence[Any]) -> list[Any]:
    """Return the cache of a sequence that leaves a batch, perhaps before it was read there."""
    for part in parts_of(cache):
        if isinstance(part, RotatingKVCache):
            fill_window(part)
    return [part.extract(0) if isinstance(part, SoleCache) else part for part in cache]


def prepare_to_run(cache: Sequence[Any]) -> None:
    """Convert the parts of a running batch's cache to their kinds in this module."""
    for part in cache:
        if type(part) is BatchKVCache:
            part.__class__ = RunningKVCache
        elif type(part) is ArraysCache:
            # States have no padding once their prompt was read, but mlx-lm keeps the paddings.
            part.left_padding = None
        elif isinstance(part, CacheList):
            prepare_to_run(part.caches)
