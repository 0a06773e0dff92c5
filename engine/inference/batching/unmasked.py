"""Caches of running rows that use no attention mask where it would hide nothing. Engine thread.

mlx-lm pads rows of different lengths on the left, and hides the padding by a mask. It makes the
mask at every step, and every layer applies it, even for a single row or for rows of the same
length, which have no padding. Without the mask the model computes the same numbers faster.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, CacheList


class UnmaskedCache(BatchKVCache):  # type: ignore[misc]  # mlx-lm has no types
    """A ``BatchKVCache`` that needs no mask for one token of rows without padding."""

    # Whether no row has padding, and the paddings for which that was checked.
    _is_even = False
    _known_for: Any = None

    def make_mask(self, N: int, return_array: bool = False, **options: Any) -> Any:  # noqa: N803
        """Return the mask for the next ``N`` tokens of each row; None where it hides nothing."""
        is_plain = N == 1 and not return_array and options.get("window_size") is None
        if is_plain and self._needs_no_mask():
            return None
        return super().make_mask(N, return_array, **options)

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        """Add keys and values of shape (rows, heads, tokens, size); return all of them."""
        found = super().update_and_fetch(keys, values)
        if keys.shape[2] == 1 and self._needs_no_mask():
            # The offset is known without computing: mlx-lm's lazy sum is never evaluated.
            self.offset = mx.array([self.size()] * keys.shape[0])
        return found

    def _needs_no_mask(self) -> bool:
        if self._known_for is not self.left_padding:
            self._known_for = self.left_padding
            self._is_even = not any(self.left_padding.tolist())
        return self._is_even

    # These change the paddings in place.

    def filter(self, batch_indices: Any) -> None:
        """Keep the given rows."""
        super().filter(batch_indices)
        self._known_for = None

    def finalize(self) -> None:
        """Move the rows to the right by the paddings that were prepared."""
        super().finalize()
        self._known_for = None


def unmask(cache: Sequence[Any]) -> None:
    """Let the parts of a running batch's cache skip needless masks from now on."""
    for part in cache:
        if type(part) is BatchKVCache:
            part.__class__ = UnmaskedCache
        elif isinstance(part, CacheList):
            unmask(part.caches)
