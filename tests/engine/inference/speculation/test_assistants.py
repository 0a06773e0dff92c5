"""Gemma 4's assistants: what they draft from the model's cache, and that answers stay the same."""

import random
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.assistants import Assistant
from engine.inference.speculation.head_drafts import HeadDrafts, attach
from engine.inference.speculation.heads import DrafterUnusable
from tests.support.models.architectures import VOCABULARY, architecture_model
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


class _Watched:
    """A batch whose assistant's drafts are compared with those computed from the whole text."""

    def __init__(self, kind: str, width: int = 4) -> None:
        model, assistant = _with_assistant(kind)
        plain = PlainAssistant(model, assistant, assistant_config(kind))
        self.batch = RunningBatch(model, BatchLimits(16, 1 << 24, 8), Eager(width))
        assert self.batch.own_head is not None
        self.own = self.batch.own_head
        self.answers: dict[int, list[int]] = {}
        self.compared = self.rows = 0
        self.longest = 0
        propose = self.own.propose

        def compared(cache: Any, known: Sequence[int], most: int) -> Sequence[Sequence[int]]:
            drafts = propose(cache, known, most)
            decoding = self.batch._batch.decoding
            self.rows = max(self.rows, len(drafts))
            for tokens, last, drafted in zip(decoding.tokens, known, drafts, strict=True):
                if drafted:
                    assert drafted == plain.drafts([*tokens, last], most)
                    self.compared += 1
                    self.longest = max(self.longest, len(tokens))
            return drafts

        self.own.propose = compared  # type: ignore[method-assign]

    def join(self, prompt: list[int], *sources: Any) -> int:
        number = self.batch.insert(BatchSequence(prompt, sources=[*sources, HeadDrafts(self.own)]))
        self.answers[number] = []
        return number

    def decode(self, number: int, tokens: int) -> None:
        while len(self.answers[number]) < tokens:
            for one, token, _ in self.batch.step().sampled:
                self.answers[one].append(token)

    def leave(self, number: int) -> list[int]:
        self.batch.remove({number: 0})
        return self.answers.pop(number)


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
        first += [token for one, token, _ in batch.step().sampled if one == number]
    decoding = batch._batch.decoding
    known = decoding._next_tokens.tolist()
    tokens = [*decoding.tokens[0], *known]
    seen = assistant.seen(decoding.prompt_cache, 0)
    hidden = decoding.prompt_cache[-1].rows[0].pieces[-1][1][None, -1:]
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
def test_drafts_are_those_of_the_whole_text_however_sequences_join_and_leave(kind: str) -> None:
    draws = random.Random(4)
    watched = _Watched(kind)

    def prompt(tokens: int) -> list[int]:
        return [draws.randrange(VOCABULARY) for _ in range(tokens)]

    begun = prompt(40)
    first, second = watched.join(prompt(3)), watched.join(begun)
    watched.decode(first, 6)
    third = watched.join(prompt(21))
    watched.decode(third, 5)
    answer = watched.leave(second)
    fourth = watched.join(prompt(2))
    watched.decode(fourth, 30)
    watched.leave(first)
    # A second turn, whose beginning comes from the prompt cache.
    fifth = watched.join([*begun, *answer, *prompt(9)])
    watched.decode(fifth, 8)
    watched.batch.close()
    assert watched.compared > 5
    assert watched.rows == 3
    assert watched.longest > 3 * WINDOW


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


def test_an_assistant_that_fails_ends_its_drafts_and_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, _ = _with_assistant("large")
    monkeypatch.setattr(Assistant, "read", lambda *_: 1 / 0)
    outcome = RandomBatches(model, 1, drafts=False, head=True).run(3)
    assert outcome.faults == []
    assert outcome.head_drafts == 0


def test_every_draft_of_an_assistant_that_knows_the_answer_is_accepted() -> None:
    model, assistant = right_pair()
    attach(model, assistant)
    outcome = RandomBatches(model, 1, drafts=False, head=True).run(cases(4))
    assert outcome.faults == []
    assert outcome.head_accepted == outcome.head_drafts > outcome.tokens // 3


def test_a_model_of_another_family_or_size_is_refused() -> None:
    assistant = Assistant(assistant_config("large"))
    with pytest.raises(DrafterUnusable, match="models of Gemma 4 only"):
        assistant.follow(architecture_model("qwen3"))
    other = assistant_config("large") | {"backbone_hidden_size": 48}
    with pytest.raises(DrafterUnusable, match="hidden states of 48 numbers, and that model's"):
        Assistant(other).follow(gemma4_model("large"))
