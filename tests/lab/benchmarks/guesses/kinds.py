"""Answers that copy, by models of every kind of cache, and what taking tokens back costs.

The models have random weights and the demo model's size, or a larger one. They do all of their
work, and then say what a script wants, so that what is copied is known.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models import gemma3_text, mamba2, qwen3, qwen3_next
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.running_cache import parts_of, prepare_to_run
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.rollback import Rollback
from engine.inference.speculation.sources import NgramDrafts
from tests.lab.benchmarks.guesses.guessing import page
from tests.support.models.tiny_models import STATES

_SIZE: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "vocab_size": 768,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_STATES: dict[str, Any] = {
    **STATES,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "keys and values": (qwen3, {}),
    "states": (qwen3_next, _STATES),
    "full windows": (gemma3_text, {"sliding_window": 128, "sliding_window_pattern": 4}),
}
_SCAN: dict[str, Any] = {
    "num_heads": 8,
    "head_dim": 32,
    "state_size": 32,
    "conv_kernel": 4,
    "n_groups": 1,
    "layer_norm_epsilon": 1e-6,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_limit": (0.0, 1e9),
    "time_step_rank": "auto",
    "residual_in_fp32": False,
}
# Those without any keys and values: the tokens of a script would not be found.
ALL_KINDS = {**KINDS, "Mamba2": (mamba2, _SCAN)}
# What a recurrence costs is small beside the weights in models that people use. What a layer costs
# that is not arithmetic shows in many small ones.
SIZES: dict[str, dict[str, Any]] = {
    "demo": {},
    "deep": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 32,
        "linear_num_value_heads": 2,
        "linear_num_key_heads": 2,
    },
    "wide": {
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "linear_num_value_heads": 8,
        "linear_num_key_heads": 8,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "state_size": 128,
    },
}
_COPIED = 320
_WIDTH = 8
_CERTAIN = 1e4


def model_of(kind: str, **other: Any) -> Any:
    """Return the model of a kind, with other sizes than the demo model's where they are given."""
    module, more = ALL_KINDS[kind]
    mx.random.seed(1)
    name = module.__name__.rpartition(".")[2]
    model = module.Model(module.ModelArgs.from_dict({"model_type": name, **_SIZE, **more, **other}))
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model


class _Says(nn.Module):
    """A model that computes everything and then says a script; its layers can be found."""

    def __init__(self, model: Any, prompt_tokens: int, script: Sequence[int]) -> None:
        super().__init__()
        self.inner = model
        self.script = mx.array(script)
        self._begin = prompt_tokens - 1

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def make_cache(self) -> Any:
        return make_prompt_cache(self.inner)

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        # States know no place.
        part = next(one for one in cache if hasattr(one, "offset"))
        read = mx.array(part.offset).reshape(-1, 1)
        logits: mx.array = self.inner(inputs, cache=cache)
        place = mx.clip(read + mx.arange(inputs.shape[1]) - self._begin, 0, self.script.size - 1)
        chosen = self.script[mx.broadcast_to(place, inputs.shape)][..., None]
        return mx.put_along_axis(logits, chosen, mx.array(_CERTAIN), axis=-1)


class KindSides:
    """An answer that copies 320 tokens, with drafts and without."""

    def __init__(self, kind: str) -> None:
        text = page(_COPIED)
        self._prompt = [*page(16, seed=3), *text, *page(8, seed=5)]
        self._script = text
        model = _Says(model_of(kind), len(self._prompt), text)
        self._batches = {
            drafts: RunningBatch(model, BatchLimits(512, 0, 8, guesses=drafts))
            for drafts in (True, False)
        }
        for drafts in (True, False):
            self._rate(drafts=drafts)  # what passes cost is learnt

    @property
    def sides(self) -> tuple[Callable[[], float], Callable[[], float]]:
        """With drafts, and without: tokens for a second of CPU time."""
        return lambda: self._rate(drafts=True), lambda: self._rate(drafts=False)

    def _rate(self, *, drafts: bool) -> float:
        batch = self._batches[drafts]
        number = batch.insert(BatchSequence(self._prompt, sources=[NgramDrafts(self._prompt)]))
        found: list[int] = []
        began_s = 0.0
        while len(found) < _COPIED:
            sampled = batch.step().sampled
            began_s = began_s or (time.process_time() if sampled else 0.0)
            found += [token for _, token, _ in sampled]
        took_s = time.process_time() - began_s
        assert found[:_COPIED] == self._script
        batch.leave({number: 0})
        return (_COPIED - 1) / took_s


class RollbackCosts:
    """What taking tokens back costs, beside other ways to have the states that are needed.

    All are shares of the CPU time of a plain pass over 8 tokens, measured in turns.

    Attributes:
        back: Taking tokens back.
        remembering: What the pass takes longer for that.
        again: Taking back where the states after each token are not kept.
        reread: What it would add to the next pass to begin it with the tokens that stay.
    """

    def __init__(self, kind: str, size: str, kept: Sequence[int], rounds: int) -> None:
        self._model = model_of(kind, **SIZES[size])
        self._kept = kept
        caches = []
        for row in range(len(kept)):
            caches.append(make_prompt_cache(self._model))
            self._model(mx.array([page(150, seed=row)]), cache=caches[-1])
        self._cache = [part[0].merge(list(part)) for part in zip(*caches, strict=True)]
        prepare_to_run(self._cache)
        self._undone, alike = Rollback(self._model), Rollback(self._model)
        for undone in (self._undone, alike):
            undone.most_tokens(self._cache)
        alike.step_bytes = 0
        shares = [self._round(alike) for _ in range(rounds + 2)][2:]
        self.back, self.remembering, self.again, self.reread = (
            statistics.median(values) for values in zip(*shares, strict=True)
        )

    def _round(self, alike: Rollback) -> tuple[float, float, float, float]:
        plain_s, wider_s = self._plain(_WIDTH), self._plain(_WIDTH + max(self._kept))
        read_s, back_s = self._taken_back(self._undone)
        _, again_s = self._taken_back(alike)
        costs = (back_s, read_s - plain_s, again_s, wider_s - plain_s)
        back, remembering, again, reread = (cost / plain_s for cost in costs)
        return back, remembering, again, reread

    def _plain(self, width: int) -> float:
        """Return the time of a pass of the model alone; the cache is as before it."""
        states = [part for part in parts_of(self._cache) if isinstance(part, ArraysCache)]
        before = [list(part.cache) for part in states]
        read_s = self._timed(lambda: self._model(self._tokens(width), cache=self._cache))
        self._undone.forget()
        self._undone.take_back(self._cache, [width] * len(self._kept))
        for part, known in zip(states, before, strict=True):
            part.cache = known
        return read_s

    def _taken_back(self, undone: Rollback) -> tuple[float, float]:
        """Return the times of a pass, and of taking tokens back after it."""
        read_s = self._timed(lambda: undone.read(self._tokens(_WIDTH), self._cache))
        surplus = [_WIDTH - count for count in self._kept]
        return read_s, self._timed(lambda: undone.take_back(self._cache, surplus))

    def _tokens(self, width: int) -> mx.array:
        return mx.random.randint(0, 768, (len(self._kept), width))

    def _timed(self, work: Callable[[], Any]) -> float:
        began_s = time.process_time()
        mx.eval(work(), [part.state for part in self._cache])
        return time.process_time() - began_s
