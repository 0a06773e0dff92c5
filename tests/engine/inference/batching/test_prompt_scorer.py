"""Prompts are scored by the batch of any model, whatever its cache, beside other prompts."""

from collections.abc import Sequence

import mlx.core as mx
import pytest

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.prompt_scoring import PromptScorer
from engine.inference.sequence import Sequence as BatchSequence
from engine.values.tokens import PromptScoring
from tests.support.models.tiny_models import KINDS, VOCABULARY, tiny_model


def prompt(length: int, seed: int) -> list[int]:
    return [(seed * 13 + place * place * 7 + place * 3) % 60 + 2 for place in range(length)]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_one_pass_whatever_the_kind_of_cache(kind: str) -> None:
    model = tiny_model(kind)
    batch = RunningBatch(model, BatchLimits(prefill_chunk=7, cache_bytes=1 << 24, rows=8))
    starts = {40: 0, 23: 5, 9: 0, 41: 38}
    wanted = [(prompt(length, length), start) for length, start in starts.items()]
    for _ in range(2):  # the second time, beginnings are kept
        found = scored(batch, wanted)
        for (tokens, start), row in zip(wanted, found, strict=True):
            logits = model(mx.array([tokens]))[0].astype(mx.float32)
            whole: list[list[float]] = (  # type: ignore[assignment]
                logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            ).tolist()
            expected = {i: whole[i - 1][tokens[i]] for i in range(max(start, 1), len(tokens))}
            assert row == pytest.approx(expected, abs=1e-4)
    batch.close()


def scored(batch: RunningBatch, wanted: Sequence[tuple[list[int], int]]) -> list[dict[int, float]]:
    """Return the log-probabilities of each prompt's tokens, by their places."""
    rows: dict[int, dict[int, float]] = {}
    for tokens, start in wanted:
        scorer = PromptScorer(tokens, PromptScoring(start), VOCABULARY)
        rows[batch.insert(BatchSequence(tokens, scorer=scorer))] = {}
    # And one beside them that nobody asks about.
    other = batch.insert(BatchSequence(prompt(30, 5)))
    drawn: set[int] = set()
    while not drawn >= rows.keys():
        step = batch.step()
        drawn |= {row for row, _, _ in step.sampled}
        for row, scores in step.scored:
            values = enumerate(scores.logprobs, scores.start)
            rows[row] |= {place: value for place, value in values if place >= scores.start}
    batch.remove(dict.fromkeys([*rows, other], 0))
    return list(rows.values())
