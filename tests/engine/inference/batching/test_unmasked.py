"""Running rows ask for no mask where it would hide nothing, and for one where it hides padding."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import BatchKVCache, KVCache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.running_cache import RunningKVCache, prepare_to_run
from engine.inference.sequence import Sequence as BatchSequence
from tests.support.models.tiny_models import tiny_model


def batch_of(*lengths: int) -> Any:
    """Return the cache of one layer for rows that have read these numbers of tokens."""
    rows = []
    for length in lengths:
        row = KVCache()
        row.update_and_fetch(mx.zeros((1, 1, length, 4)), mx.zeros((1, 1, length, 4)))
        rows.append(row)
    found: Any = BatchKVCache.merge(rows)
    prepare_to_run([found])
    return found


def test_a_row_alone_and_rows_of_one_length_need_no_mask() -> None:
    assert batch_of(5).make_mask(1) is None
    assert batch_of(5, 5, 5).make_mask(1) is None


class Masks:
    """A model that notes what masks its rows ask for when they decode."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.found: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the model, such as its layers."""
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> Any:
        if inputs.shape[1] == 1:
            self.found.append(cache[0].make_mask(1) is not None)
        return self._model(inputs, cache=cache)


def decode(batch: RunningBatch, rows: dict[int, list[int]], tokens: int) -> None:
    """Step a batch until each of its rows has this many more tokens."""
    wanted = {row: len(found) + tokens for row, found in rows.items()}
    while any(len(rows[row]) < count for row, count in wanted.items()):
        for row, token, _ in batch.step().sampled:
            rows[row].append(token)


def answer_alone(batch: RunningBatch, prompt: list[int], tokens: int) -> list[int]:
    """Return the first tokens of an answer that runs alone."""
    rows: dict[int, list[int]] = {batch.insert(BatchSequence(prompt)): []}
    decode(batch, rows, tokens)
    return rows[0]


@pytest.mark.parametrize("is_masked", [True, False])
def test_answers_are_the_same_with_and_without_masks(
    monkeypatch: pytest.MonkeyPatch, is_masked: bool
) -> None:
    model = Masks(tiny_model("full"))
    prompts = [list(range(11, 31)), [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    alone = []
    for prompt in prompts:
        batch = RunningBatch(model, BatchLimits(64, 0, 8, drafts=False))
        alone.append(answer_alone(batch, prompt, 48))
        batch.close()
    if is_masked:
        monkeypatch.setattr(RunningKVCache, "make_mask", BatchKVCache.make_mask)
    batch = RunningBatch(model, BatchLimits(64, 0, 8, drafts=False))
    # The longest is first: however much it decodes while the others are read, it stays the longest.
    together: dict[int, list[int]] = {batch.insert(BatchSequence(prompts[0])): []}
    decode(batch, together, 4)
    assert model.found[-1] == is_masked  # a row alone
    together.update((batch.insert(BatchSequence(one)), []) for one in prompts[1:])
    decode(batch, together, 4)
    assert model.found[-1]
    longest = together.pop(0)
    batch.remove({0: 0})
    decode(batch, together, 4)
    assert model.found[-1] == is_masked  # rows of one length
    batch.close()
    for row, tokens in {**together, 0: longest}.items():
        assert tokens[:48] == alone[row][: len(tokens)]
