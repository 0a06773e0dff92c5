"""Reads a model's weights into memory, part by part, and refuses weights that hold NaN.

One NaN spoils every answer of a model, and nothing else would report it. Engine thread.
"""

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.library.loading import LoadProgress, OnLoadProgress

_PART_BYTES = 128 << 20
# How many values of one weight are checked at once; the check takes one byte of memory for each.
_SLICE = 1 << 20


class DamagedWeights(Exception):
    """Some of the weights hold NaN; the message names them."""


def read(model: Any, total: int, on_progress: OnLoadProgress) -> None:
    """Read a model's weights into memory, about a hundred megabytes at a time."""
    done = due = 0
    part: list[tuple[str, mx.array]] = []
    on_progress(LoadProgress("weights", 0, total))
    for named in tree_flatten(model.parameters()):
        part.append(named)
        due += named[1].nbytes
        if due >= _PART_BYTES:
            _read_part(part)
            done, due, part = done + due, 0, []
            on_progress(LoadProgress("weights", min(done, total), total))
    _read_part(part)
    on_progress(LoadProgress("weights", total, total))


def _read_part(part: list[tuple[str, mx.array]]) -> None:
    """Read some weights and compute their sums, which take no memory and show every NaN."""
    weights = [(name, one) for name, one in part if mx.issubdtype(one.dtype, mx.floating)]
    # All at once, because waiting for single values takes longer than the sums of a small model.
    are_finite = mx.isfinite(mx.stack([mx.array(0.0), *(mx.sum(one) for _, one in weights)]))
    mx.eval([one for _, one in part], are_finite)
    found: Any = are_finite.tolist()
    for (name, weight), is_finite in zip(weights, found[1:], strict=True):
        # A sum may also overflow although no weight is NaN.
        if not is_finite and _has_nan(weight):
            raise DamagedWeights(
                f"its weights {name} contain values that are not numbers (NaN). Download it again, "
                "or convert it again"
            )


def _has_nan(weight: mx.array) -> bool:
    flat = weight.reshape(-1)
    return any(
        mx.any(mx.isnan(flat[start : start + _SLICE])).item()
        for start in range(0, flat.size, _SLICE)
    )
