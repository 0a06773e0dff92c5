"""Reads a model's weights into memory, part by part, and refuses weights with NaN. Engine thread.

One NaN spoils every answer of a model, and nothing else would report it.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from engine.files.json_fields import DamagedFile
from engine.inference.backend import LoadProgress, OnLoadProgress
from engine.inference.cache.disk import Stamps
from engine.library.configuration import is_count, text_part
from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize

_log = logging.getLogger(__name__)
# On MLX's processor build, products of quantised weights with 16-bit numbers take 8 to 35 times as
# long as with 32-bit ones.
_SLOW_ON_CPU = (mx.float16, mx.bfloat16)
# The names by which configurations say how many experts read a token.
_CHOSEN_EXPERTS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
)


class BaseWeights:
    """The weights of a model folder in memory, which all models of this base share.

    A model and its adapters each keep a reference; the arrays are freed with the last of them.
    """

    def __init__(self, model: Any) -> None:
        self._arrays: dict[str, mx.array] = dict(tree_flatten(model.parameters()))
        self.ids = frozenset(map(id, self._arrays.values()))

    def give_to(self, model: Any) -> None:
        """Replace the weights of a lazily loaded model of the same folder."""
        model.load_weights(list(self._arrays.items()))

    def shared_bytes(self, model: Any) -> int:
        weights = (weight for _, weight in tree_flatten(model.parameters()))
        return sum(weight.nbytes for weight in weights if id(weight) in self.ids)


BASES: "WeakValueDictionary[tuple[Path, Stamps], BaseWeights]" = WeakValueDictionary()
"""The weights in memory by their folder and the state of its files."""


def size_of(model: Any) -> int:
    """Return the bytes of a model's weights."""
    return sum(weight.nbytes for _, weight in tree_flatten(model.parameters()))


def step_reads(model: Any, config: Mapping[str, Any], cache: CacheSize) -> StepReads:
    """Return the bytes that a decode step of a model reads, of its experts only the chosen ones."""
    scope = {**config, **text_part(config)}
    chosen = next((scope[name] for name in _CHOSEN_EXPERTS if is_count(scope.get(name))), 0)
    kinds = (SwitchLinear, QuantizedSwitchLinear)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    if not chosen or not layers:
        return StepReads(size_of(model), cache)
    experts = sum(map(size_of, layers))
    share = min(1.0, chosen / max(layer.num_experts for layer in layers))
    return StepReads(size_of(model) - experts, cache, experts, share)


def read_weights(
    model: Any, on_progress: OnLoadProgress, resident: frozenset[int] = frozenset()
) -> None:
    """Read a model's weights into memory, about a hundred megabytes at a time.

    ``resident`` has the ids of arrays that have been read already.
    """
    weights = [each for each in tree_flatten(model.parameters()) if id(each[1]) not in resident]
    total, done, due = sum(weight.nbytes for _, weight in weights), 0, 0
    part: list[tuple[str, mx.array]] = []
    on_progress(LoadProgress("weights", 0, total))
    for named in weights:
        part.append(named)
        due += named[1].nbytes
        if due >= 128 << 20:
            _read_part(part)
            done, due, part = done + due, 0, []
            on_progress(LoadProgress("weights", done, total))
    _read_part(part)
    on_progress(LoadProgress("weights", total, total))


def widen(model: Any) -> None:
    """Let a quantised model compute with 32-bit numbers; nothing is read yet."""
    named = tree_flatten(model.parameters())
    if not any(name.endswith(".scales") and weight.dtype in _SLOW_ON_CPU for name, weight in named):
        return
    _log.info("the model computes with 32-bit numbers, because 16-bit ones are slow without a GPU")
    model.set_dtype(mx.float32, lambda dtype: dtype in _SLOW_ON_CPU)


def _read_part(part: list[tuple[str, mx.array]]) -> None:
    """Read some weights and compute their sums, which take no memory and show every NaN."""
    weights = [(name, weight) for name, weight in part if mx.issubdtype(weight.dtype, mx.floating)]
    # All at once, because waiting for single values takes longer than the sums of a small model.
    are_finite = mx.isfinite(mx.stack([mx.array(0.0), *(mx.sum(weight) for _, weight in weights)]))
    mx.eval([weight for _, weight in part], are_finite)
    finite: Any = are_finite.tolist()
    for (name, weight), is_finite in zip(weights, finite[1:], strict=True):
        # A sum may also overflow although no weight is NaN.
        if not is_finite and mx.any(mx.isnan(weight)).item():
            raise DamagedFile(
                f"its weights {name} contain values that are not numbers (NaN). Download it again, "
                "or convert it again"
            )
