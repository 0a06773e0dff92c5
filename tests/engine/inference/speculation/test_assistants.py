"""Gemma 4's assistants: what they draft from the model's cache, and that answers stay the same."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.assistants import Assistant
from engine.inference.speculation.head_drafts import attach
from tests.support.models.assistants import (
    TARGETS,
    WINDOW,
    PlainAssistant,
    assistant_config,
    gemma4_model,
    random_assistant,
    right_pair,
)
from tests.support.models.guessing import Eager
from tests.support.models.random_batches import RandomBatches
from tests.support.random_cases import cases, few_of


def _with_assistant(kind: str) -> tuple[Any, Assistant]:
    model = gemma4_model(kind)
    assistant = random_assistant(kind, model)
    attach(model, assistant)
    return model, assistant


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("length", [2, WINDOW, 3 * WINDOW + 1])
def test_logits_are_those_of_the_published_description(kind: str, length: int) -> None:
    model = gemma4_model(kind)
    assistant = random_assistant(kind, model)
    attach(model, assistant)
    batch = RunningBatch(model, BatchLimits(16, 0, 8), Eager(4))
    prompt = [n * 7 % 61 + 1 for n in range(length)]
    number = batch.insert(BatchSequence(prompt))
    first: list[int] = []
    while not first:
        first += [token for token, _ in batch.step()[number].sampled]
    [decoding] = batch._batch.decoding.groups
    known = decoding._next_tokens.tolist()
    tokens = [*decoding.tokens[0], *known]
    seen = assistant.seen(decoding.prompt_cache, 0)
    hidden = decoding.prompt_cache[-1].rows[0].unread()[1][:, -1:]
    plain = PlainAssistant(model, assistant, assistant_config(kind)).logits(tokens, 4)
    token = mx.array([known])
    for expected in plain:
        states, hidden = assistant.read(hidden, token, seen)
        logits = np.array(assistant.logits(states))[0, 0]
        assert np.array_equal(np.isfinite(logits), np.isfinite(expected))
        there = np.isfinite(expected)
        assert np.allclose(logits[there], expected[there], atol=1e-3)
        token = mx.array([[int(np.argmax(expected))]])
    batch.close()


@pytest.mark.parametrize("kind", few_of(TARGETS, 1))
def test_an_assistant_that_knows_nothing_changes_no_answer(kind: str) -> None:
    model, _ = _with_assistant(kind)
    alone = RandomBatches(model, 1, rows=1, drafts=False, head=True).run(cases(2))
    together = RandomBatches(model, 2, drafts=False, head=True).run(cases(3))
    beside_others = RandomBatches(model, 3, head=True).run(cases(3))
    for outcome in (alone, together, beside_others):
        assert outcome.faults == []
    assert alone.head_drafts > 0
    assert together.head_drafts > 0
    assert beside_others.accepted == beside_others.foreseen > 0


def test_every_draft_of_an_assistant_that_knows_the_answer_is_accepted() -> None:
    model, assistant = right_pair()
    attach(model, assistant)
    outcome = RandomBatches(model, 1, drafts=False, head=True).run(cases(4))
    assert outcome.faults == []
    assert outcome.head_accepted == outcome.head_drafts > outcome.tokens // 3
