"""The keys and values of the sequences that decode together. Engine thread.

mlx-lm right-aligns them in one block and hides the padding on the left by a mask. It makes the mask
at every step, and every layer applies it, even where nothing is padded: there is none here then.
"""

import copy
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

# If every row has this many empty positions on its left, copying the block to remove them pays.
_MIN_EMPTY = 64


class RunningKVCache(BatchKVCache):  # type: ignore[misc]  # mlx-lm has no types
    """A ``BatchKVCache`` without needless masks, from whose end each sequence is cut as it needs.

    Where one sequence is cut shorter than the others, mlx-lm would move all of its keys and values
    to the right. Here its oldest ones fill the gap: attention does not care in which order keys
    stand that are all visible. What leaves the block is put in order again.
    """

    left_padding: Any
    offset: Any
    # Whether the order matters: a window is a range of positions in some models, and an index takes
    # the first of keys with equal scores.
    is_ordered = False

    # Whether no row has padding, and the paddings for which that was checked.
    _is_even = False
    _known_for: Any = None
    # For each row: the positions of moved tokens, each with its first position; both are counted
    # from where the block began, ``_begin`` positions to the left.
    _moved: list[dict[int, int]] | None = None
    _begin = 0

    def make_mask(self, N: int, return_array: bool = False, **options: Any) -> Any:  # noqa: N803
        """Return the mask for the next ``N`` tokens of each row; None where it hides nothing."""
        if options.get("window_size") is not None:
            self.is_ordered = True
        elif N == 1 and not return_array and self._needs_no_mask():
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

    def note_moves(self, sources: Sequence[Sequence[int]], counts: Sequence[int]) -> None:
        """Record that the last positions of each row hold tokens of other positions."""
        if self._moved is None:
            self._moved = [{} for _ in counts]
        for moved, row, count in zip(self._moved, sources, counts, strict=True):
            for position, source in zip(range(self._idx - count, self._idx), row, strict=True):
                written = moved.pop(source + self._begin, source + self._begin)
                moved[position + self._begin] = written

    def extract(self, idx: int) -> Any:
        """Return the cache of one row, in the order of its tokens."""
        alone = super().extract(idx)
        if self._moved is not None and (moved := self._moved[idx]):
            first = self._idx - alone.offset + self._begin
            written = [moved.get(first + n, first + n) for n in range(alone.offset)]
            order = mx.array(sorted(range(len(written)), key=written.__getitem__))
            alone.keys, alone.values = alone.keys[:, :, order], alone.values[:, :, order]
        return alone

    def filter(self, batch_indices: Any) -> None:
        """Keep the given rows."""
        end = self._idx
        super().filter(batch_indices)
        self._begin += end - self._idx
        if self._moved is not None:
            self._moved = [self._moved[row] for row in batch_indices]
        self._known_for = None

    def extend(self, other: Any) -> None:
        """Add the rows of another cache."""
        end, rows = self._idx, other.offset.shape[0]
        super().extend(other)
        self._begin += end - self._idx
        if self._moved is not None:
            self._moved += [{} for _ in range(rows)]

    def finalize(self) -> None:
        """Move the rows to the right by the paddings that were prepared."""
        super().finalize()
        self._known_for = None


def cut(parts: Sequence[RunningKVCache], shared: int, more: Sequence[int]) -> None:
    """Remove the last ``shared`` tokens of all rows, then ``more[row]`` of each; one row has 0."""
    for part in parts:
        part.trim(shared)
    if parts and any(more):
        cut_rows(parts, more)
        # Rows that are cut leave empty positions on their left.
        if min(parts[0].left_padding.tolist()) >= _MIN_EMPTY:
            for part in parts:
                part.filter(list(range(len(more))))


def cut_rows(parts: Sequence[RunningKVCache], more: Sequence[int]) -> None:
    """Remove the last ``more[row]`` tokens of each row from all parts; one row loses none."""
    if any(part.is_ordered for part in parts):
        for part in parts:
            part.prepare(right_padding=list(more))
            part.finalize()
        return
    paddings, removed = parts[0].left_padding.tolist(), mx.array(list(more))
    end, longest = parts[0].size(), max(more)
    # A row of few tokens moves them all.
    counts = [min(count, end - count - left) for count, left in zip(more, paddings, strict=True)]
    sources = [range(left, left + count) for left, count in zip(paddings, counts, strict=True)]
    positions = mx.array(
        [[*range(end - longest, end - len(row)), *row] for row in sources],
    )[:, None, :, None]
    moving = []
    for part in parts:
        part.note_moves(sources, counts)
        part.offset = part.offset - removed
        part.left_padding = part.left_padding + removed
        moving += [
            (array, mx.take_along_axis(array, positions, axis=2))
            for array in (part.keys, part.values)
        ]
    # Only then does nothing else use the blocks, so that they are changed where they are.
    mx.eval([moved for _, moved in moving])
    for block, moved in moving:
        block[..., end - longest : end, :] = moved


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
        """Return the part of the only sequence."""
        [part] = parts
        return part

    def filter(self, batch_indices: Any) -> None:
        """Keep the only sequence: mlx-lm drops the whole part where none stays."""

    def extract(self, idx: int) -> Any:
        """Return a part that no longer belongs to a batch; arrays are not copied."""
        part = copy.deepcopy(self)
        part.__class__ = self.kind
        return part


_sole_kinds: dict[type, type] = {}


def is_sole(fresh: Sequence[Any]) -> bool:
    """Whether mlx-lm has no kind of cache for several sequences of a model with a fresh cache."""
    return any(not hasattr(part, "merge") for part in parts_of(fresh))


def batched(cache: list[Any] | None, model: Any) -> list[Any] | None:
    """Return the cache of a sequence as it joins a batch; None for an empty one."""
    fresh = make_prompt_cache(model) if cache is None else cache
    if not is_sole(fresh):
        return cache
    for part in fresh:
        kind = type(part)
        if kind not in _sole_kinds:
            _sole_kinds[kind] = type(kind.__name__, (SoleCache, kind), {"kind": kind})
        part.__class__ = _sole_kinds[kind]
    return fresh


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
            inner = [layer for layer in part.caches if isinstance(layer, RunningKVCache)]
            for layer in inner:
                layer.is_ordered = len(inner) > 1
