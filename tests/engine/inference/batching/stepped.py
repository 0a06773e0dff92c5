"""A batch that is stepped by hand, on real models with caches of all kinds."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence
from engine.inference.speculation.cost import PassCosts
from engine.inference.speculation.sources import DraftSource
from engine.library.length_groups import StepReads
from engine.values.request import LOCAL_OWNER, CacheOwner
from tests.support.models.tiny_models import tiny_model

# A token whose likelihood differs by less from the best one's is as good: adding up in another
# order gives other last digits.
NOISE = 1e-3


@functools.cache
def demo_model() -> Any:
    return mlx_lm.load(str(Path(__file__).parents[4] / "assets" / "demo-model"))[0]


class Model:
    """A model that counts the tokens that it reads."""

    def __init__(self, kind: str) -> None:
        self.model = demo_model() if kind == "demo" else tiny_model(kind)
        self.layers = self.model.layers
        self.tokens = 0
        self.fails = False

    def make_cache(self) -> list[Any]:
        return list(make_prompt_cache(self.model))

    def __call__(self, tokens: mx.array, cache: Any = None) -> Any:
        if self.fails:
            self.fails = False
            raise RuntimeError("out of memory")
        if tokens.shape[1] > 1:
            self.tokens += tokens.size
        return self.model(tokens, cache=cache)


class Stepped:
    """A batch that is stepped by hand, and what its rows have answered."""

    def __init__(
        self,
        kind: str,
        *,
        cache_bytes: int = 1 << 30,
        chunk: int = 8,
        reads: StepReads | None = None,
        costs: PassCosts | None = None,
        cache_bits: int | None = None,
    ) -> None:
        self.model = Model(kind)
        limits = BatchLimits(chunk, cache_bytes, rows=32, reads=reads, cache_bits=cache_bits)
        self.batch = RunningBatch(self.model, limits, costs)
        self.prompts: dict[int, list[int]] = {}
        self.sequences: dict[int, Sequence] = {}
        self.read: dict[int, int] = {}
        self.answers: dict[int, list[int]] = {}

    def insert(
        self,
        prompt: list[int],
        turn_end: int = 0,
        owner: CacheOwner = LOCAL_OWNER,
        sources: Iterable[DraftSource] = (),
    ) -> int:
        sequence = Sequence(list(prompt), turn_end=turn_end, owner=owner, sources=[*sources])
        row = self.batch.insert(sequence)
        self.prompts[row], self.answers[row] = prompt, []
        self.sequences[row] = sequence
        return row

    def step(self) -> None:
        step = self.batch.step()
        for number, row in step.items():
            if row.read is not None:
                self.read[number] = self.sequences[number].cached + row.read
                assert self.read[number] <= len(self.prompts[number])
            self.answers[number] += [token for token, _ in row.sampled]

    def answer(self, *rows: int, tokens: int = 4) -> None:
        for _ in range(3000):
            if all(len(self.answers[row]) >= tokens for row in rows):
                return
            self.step()
        pytest.fail("a row does not answer")

    @property
    def groups(self) -> list[list[int]]:
        """The decoding rows, those that share a cache together."""
        return [list(group.uids) for group in self._decoding]

    @property
    def padding(self) -> int:
        """How many positions of the decoding rows' caches are padding."""
        lengths = [[len(held) for held in group.tokens] for group in self._decoding]
        return sum(len(group) * max(group) - sum(group) for group in lengths)

    @property
    def _decoding(self) -> list[Any]:
        return self.batch._batch.decoding.groups

    def leave(self, *rows: int) -> None:
        self.batch.remove(dict.fromkeys(rows, 0))

    def check(self, row: int) -> None:
        """Fail unless an answer is that of the model to the same prompt, read alone in one pass."""
        prompt, answer = self.prompts[row], self.answers[row]
        model = self.model.model
        logits = model(mx.array([[*prompt, *answer]]), cache=make_prompt_cache(model))[0]
        for at, token in enumerate(answer, start=len(prompt) - 1):
            best = logits[at].max().item()
            assert logits[at, token].item() > best - NOISE, (row, at, prompt, answer)


SYSTEM = [n * 7 % 61 + 1 for n in range(50)]
