"""Drafts of a model's own head, in batches: what it drafts, and that answers stay the same."""

import gc
import random
import weakref
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation import head_drafts
from engine.inference.speculation.head_drafts import HeadDrafts, attach
from engine.inference.speculation.heads import DraftHead, Layout
from tests.support.models.architectures import VOCABULARY, architecture_model, silence_layers
from tests.support.models.draft_heads import layout_of, random_head
from tests.support.models.guessing import Eager
from tests.support.models.random_batches import Outcome, RandomBatches
from tests.support.random_cases import cases, few_of

_FAMILIES = ("qwen3", "qwen3_next", "deepseek_v32", "mimo")


def _with_random_head(name: str, layout: Layout | None = None) -> tuple[Any, DraftHead]:
    model = architecture_model(name)
    head = random_head(name, model, layout=layout or layout_of(name))
    attach(model, head)
    return model, head


def _with_right_head(name: str) -> Any:
    """Return a model that looks at its last token only, and a head that knows what it will say."""
    model = architecture_model(name)
    head = random_head(name, model)
    silence_layers(model)
    silence_layers(head)
    size = head.norm.weight.shape[0]
    head.fc.weight = mx.concatenate([mx.eye(size), mx.zeros((size, size))], axis=1)
    head.pre_fc_norm_embedding.weight = mx.ones((size,))
    head.norm.weight = model.model.norm.weight
    attach(model, head)
    return model


def _outcome(model: Any, answers: int, seed: int = 1) -> Outcome:
    return RandomBatches(model, seed, drafts=False, head=True).run(answers)


@pytest.mark.parametrize("name", few_of(_FAMILIES, 2))
def test_a_head_that_knows_nothing_changes_no_answer(name: str) -> None:
    model, _ = _with_random_head(name)
    alone = _outcome(model, cases(4))
    assert alone.faults == []
    assert alone.head_drafts > 0
    beside_others = RandomBatches(model, 2, head=True).run(cases(4))
    assert beside_others.faults == []
    assert beside_others.accepted == beside_others.foreseen > 0


@pytest.mark.parametrize("name", few_of([*_FAMILIES, "qwen3_5"], 3))
def test_every_draft_of_a_head_that_knows_the_answer_is_accepted(name: str) -> None:
    outcome = _outcome(_with_right_head(name), cases(8))
    assert outcome.faults == []
    assert outcome.head_accepted == outcome.head_drafts > outcome.tokens // 6


def _expected(model: Any, head: DraftHead, tokens: Sequence[int], most: int) -> list[int]:
    """Return what a head drafts after tokens, computed from all of them."""
    given = mx.array([list(tokens)])
    cache = head.make_cache()
    hidden = type(model.model).__mro__[1].__call__(model.model, given)[:, :-1]
    states, handed_on = head.read(hidden, given[:, 1:], cache)
    drafts = []
    for _ in range(most):
        draft = mx.argmax(head.logits(states[:, -1:]), axis=-1)
        drafts.append(int(draft.item()))
        states, handed_on = head.read(handed_on[:, -1:], draft, cache)
    return drafts


class _Watched:
    """A batch with a random head whose drafts are compared with those computed from all tokens."""

    def __init__(self, name: str, width: int = 4) -> None:
        self.model, self.head = _with_random_head(name)
        self.batch = RunningBatch(self.model, BatchLimits(16, 0, 8), Eager(width))
        own = self.batch.own_head
        assert own is not None
        self.own = own
        self.compared = self.rows = 0
        propose = own.propose
        self.answers: dict[int, list[int]] = {}

        def compared(cache: Any, known: Sequence[int], most: int) -> Sequence[Sequence[int]]:
            drafts = propose(cache, known, most)
            groups = self.batch._batch.decoding.groups
            decoding = next(group for group in groups if group.prompt_cache is cache)
            self.rows = max(self.rows, len(drafts))
            for tokens, last, drafted in zip(decoding.tokens, known, drafts, strict=True):
                assert drafted == _expected(self.model, self.head, [*tokens, last], most)
                self.compared += 1
            return drafts

        own.propose = compared  # type: ignore[method-assign]

    def join(self, prompt: list[int], *sources: Any) -> int:
        sequence = BatchSequence(prompt, sources=[*sources, HeadDrafts(self.own)])
        number = self.batch.insert(sequence)
        self.answers[number] = []
        return number

    def step(self) -> Any:
        step = self.batch.step()
        for number, row in step.items():
            self.answers[number] += [token for token, _ in row.sampled]
        return step

    def decode(self, number: int, tokens: int) -> None:
        while len(self.answers[number]) < tokens:
            self.step()


@pytest.fixture
def reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heads read all that waits, so that their drafts can be computed from the whole text."""
    monkeypatch.setattr(head_drafts, "MAX_UNREAD", 4096)


@pytest.mark.usefixtures("reads_all")
@pytest.mark.parametrize("name", few_of(["qwen3", "qwen3_next", "deepseek_v3", "mimo"], 2))
def test_drafts_are_those_of_the_whole_text_however_sequences_join_and_leave(name: str) -> None:
    draws = random.Random(4)
    watched = _Watched(name)

    def prompt(tokens: int) -> list[int]:
        return [draws.randrange(VOCABULARY) for _ in range(tokens)]

    first, second = watched.join(prompt(3)), watched.join(prompt(40))
    watched.decode(first, 6)
    third = watched.join(prompt(21))
    watched.decode(third, 5)
    watched.batch.remove({second: 0})
    fourth = watched.join(prompt(1))
    watched.decode(fourth, 12)
    watched.batch.remove({first: 0})
    watched.decode(third, 20)
    watched.batch.close()
    assert watched.compared > 3
    assert watched.rows == 3


def test_a_head_that_fails_ends_its_drafts_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, head = _with_random_head("qwen3")
    monkeypatch.setattr(DraftHead, "read", lambda *_: 1 / 0)
    outcome = _outcome(model, 4)
    assert outcome.faults == []
    assert outcome.head_drafts == 0
    assert head.parameters()


def test_a_closed_model_with_a_head_is_freed_at_once() -> None:
    model, head = _with_random_head("qwen3")
    batch = RunningBatch(model, BatchLimits(16, 0, 8), Eager(4))
    assert batch.own_head is not None
    batch.insert(BatchSequence([5, 9, 2], sources=[HeadDrafts(batch.own_head)]))
    for _ in range(20):
        batch.step()
    gone = [weakref.ref(model), weakref.ref(head)]
    gc.collect()
    gc.disable()
    try:
        batch.close()
        del model, head, batch
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()
