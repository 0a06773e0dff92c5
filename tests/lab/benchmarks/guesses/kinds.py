"""Answers that copy, by models of every kind of cache.

The models have random weights and the demo model's size. They do all of their
work, and then say what a script wants, so that what is copied is known.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models import gemma3_text, qwen3, qwen3_next
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
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
_COPIED = 320
_CERTAIN = 1e4


def model_of(kind: str) -> Any:
    """Return the model of a kind."""
    module, more = KINDS[kind]
    mx.random.seed(1)
    name = module.__name__.rpartition(".")[2]
    model = module.Model(module.ModelArgs.from_dict({"model_type": name, **_SIZE, **more}))
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
            drafts: RunningBatch(model, BatchLimits(512, 0, 8, drafts=drafts))
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
        batch.remove({number: 0})
        return (_COPIED - 1) / took_s
