"""Measures what a draft model saves, by how often its guesses are right.

There is no pair of real models here, and this machine's passes over several tokens cost much more
than a GPU's. So the pass of the model that answers is made to last as long as one that waits for
its weights to be read from memory, whatever the number of tokens; its own computation comes on top.
It says a script. The draft model does all of its work, and then says the same script but for some
tokens. The other side is mlx-lm's bare loop with the model that answers alone.
"""

import random
import time
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.inference.backend import BatchLimits, OnLoadProgress
from engine.inference.mlx_backend import MlxBackend
from engine.inference.speculation.draft_model import DraftModel, LoadedDraft
from engine.library.model_info import DraftInfo
from tests.lab.benchmarks.guesses.guessing import MODEL, Saying, Sides, page

# A pass of the model that answers: about that of 14 billion parameters in 4 bits on a Mac that
# reads 150 GB a second. The draft model's takes a twentieth of that or more.
PASS_S = 0.050
_DRAFT_LAYERS = 2
_TOKENS = 128
RIGHT = (0.5, 0.7, 0.8, 0.9)


class Patient(Saying):
    """A model whose passes last at least as long as its weights would take to be read."""

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return the logits of shape (rows, tokens, vocabulary)."""
        time.sleep(PASS_S)
        return super().__call__(inputs, cache=cache)


class DraftSides(Sides):
    """The engine with a draft model whose guesses are right so often, and the bare loop."""

    def __init__(self, right: float) -> None:
        draws = random.Random(7)
        script = page(_TOKENS, seed=9)
        self._drafted = [one if draws.random() < right else one + 1 for one in script]
        super().__init__(page(320), script)

    def _saying(self, model: Any) -> Saying:
        return Patient(model, len(self._prompt), self._script)

    def _load(
        self, folder: Path, *, limits: BatchLimits, on_progress: OnLoadProgress
    ) -> MlxBackend:
        backend = super()._load(folder, limits=limits, on_progress=on_progress)
        info = DraftInfo("draft", folder, 0, backend.info.cache)
        model = Saying(_small_model(), len(self._prompt), self._drafted)
        backend._draft = DraftModel(LoadedDraft(model, info, backend.vocabulary), 0)
        return backend

    def draft_s(self) -> float:
        """Return how long the draft model takes for one token after another."""
        from mlx_lm.models.cache import make_prompt_cache

        model = _small_model()
        cache, token = make_prompt_cache(model), mx.array([[300]])
        took: list[float] = []
        for _ in range(64):
            began_s = time.perf_counter()
            mx.eval(model(token, cache=cache))
            took.append(time.perf_counter() - began_s)
        return sorted(took)[len(took) // 2]


def _small_model() -> Any:
    from mlx_lm import load

    model: Any = load(str(MODEL))[0]
    del model.layers[_DRAFT_LAYERS:]
    return model
