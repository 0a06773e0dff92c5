"""Random batches that join, leave, are cancelled and go on in second turns, with drafts or without.

What the bare model would answer is computed alone, token by token, for each answer. Where its two
best logits are nearly equal, rounding may choose, and both answers are right: that is counted.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.sources import DraftSource
from tests.support.models.architectures import VOCABULARY
from tests.support.models.guessing import Eager, Foreseen

NEAR = 1e-3
_CHUNK = 16


@dataclass(slots=True)
class Outcome:
    """What random batches of one model have shown.

    Attributes:
        answers: Answers that were compared.
        tokens: Their tokens.
        near_ties: Tokens at which the two best logits are closer than ``NEAR``.
        turned: Answers that go on otherwise from a near tie on.
        drafts: Draft tokens that were verified.
        accepted: Those that were accepted.
        foreseen: How many a simulation expects to be accepted of those.
        head_drafts: Draft tokens of the model's own head that were verified.
        head_accepted: Those that were accepted.
        faults: What differs otherwise.
    """

    answers: int = 0
    tokens: int = 0
    near_ties: int = 0
    turned: int = 0
    drafts: int = 0
    accepted: int = 0
    foreseen: int = 0
    head_drafts: int = 0
    head_accepted: int = 0
    faults: list[str] = field(default_factory=list)


class PlainLoop:
    """The bare model at temperature 0: one sequence, one token at a time."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def answer(self, prompt: Sequence[int], tokens: int) -> tuple[list[int], list[float]]:
        """Return the answer, and how far apart the two best logits of each token are."""
        cache = make_prompt_cache(self._model)
        read = 0
        while read < len(prompt) - 1:
            part = list(prompt[read : min(len(prompt) - 1, read + _CHUNK)])
            self._model(mx.array([part]), cache=cache)
            mx.eval([one.state for one in cache])
            read += len(part)
        last, answer, gaps = prompt[-1], [], []
        for _ in range(tokens):
            logits = self._model(mx.array([[last]]), cache=cache)[0, -1]
            best = mx.sort(logits)[-2:]
            last = int(mx.argmax(logits).item())
            answer.append(last)
            gaps.append(float((best[1] - best[0]).item()))
        return answer, gaps


class _Running:
    """An answer in the batch, and what it is compared with."""

    def __init__(
        self, prompt: list[int], answer: list[int], gaps: list[float], source: Foreseen | None
    ) -> None:
        self.prompt, self.answer, self.gaps, self.source = prompt, answer, gaps, source
        self.found: list[int] = []
        self.has_turned = False


class RandomBatches:
    """Runs random batches of one model and compares them with the bare model.

    Args:
        model: The model.
        seed: Where the random choices begin.
        rows: The most sequences at once.
        drafts: Whether drafts are made, right and wrong ones.
        head: Whether the model's own head or assistant drafts, which is attached to it.
    """

    def __init__(
        self, model: Any, seed: int, *, rows: int = 3, drafts: bool = True, head: bool = False
    ) -> None:
        self.outcome = Outcome()
        self._model = model
        self._draws = random.Random(seed)
        self._rows = rows
        self._drafts = drafts
        self._head = head
        self._plain = PlainLoop(model)

    def run(self, answers: int) -> Outcome:
        """Run a batch in which so many answers are given."""
        draws = self._draws
        width = draws.choice((2, 4, 8, 12))
        batch = RunningBatch(self._model, BatchLimits(_CHUNK, 1 << 26, 8), lambda: Eager(width))
        running: dict[int, _Running] = {}
        turns: list[list[int]] = []
        left = answers
        while left or running:
            while left and len(running) < self._rows and (not running or draws.random() < 0.3):
                left -= 1
                one = self._made(turns)
                sources: list[DraftSource] = [] if one.source is None else [one.source]
                if self._head:
                    assert batch.own_head is not None
                    sources.append(batch.own_head.drafts())
                number = batch.insert(BatchSequence(one.prompt, sources=sources))
                running[number] = one
            step = batch.step()
            got: dict[int, int] = {}
            for number, token, _ in step.sampled:
                running[number].found.append(token)
                got[number] = got.get(number, 0) + 1
            for number, checked in step.checked.items():
                if batch.own_head is not None and batch.own_head.origin in checked.guesses:
                    self.outcome.head_drafts += len(checked.guesses)
                    self.outcome.head_accepted += got[number] - 1
                else:
                    self._compare_drafts(running[number], checked, got[number])
            gone = {}
            for number in [*running]:
                one = running[number]
                # Some are cancelled, which happens between two steps.
                surplus = len(one.found) - len(one.answer)
                if surplus >= 0 or (one.found and draws.random() < 0.01):
                    gone[number] = max(0, surplus)
                    del running[number]
                    self._compare(one)
                    if not one.has_turned and draws.random() < 0.6:
                        turns.append([*one.prompt, *one.found[: len(one.answer)]])
            if gone:
                batch.leave(gone)
        batch.close()
        return self.outcome

    def _made(self, turns: list[list[int]]) -> _Running:
        """Return a fresh answer, to a prompt or to a second turn."""
        draws = self._draws
        more = [draws.randrange(VOCABULARY) for _ in range(draws.randint(1, 30))]
        prompt = [*turns.pop(), *more] if turns and draws.random() < 0.6 else more
        answer, gaps = self._plain.answer(prompt, draws.randint(4, 24))
        source = None
        if self._drafts and draws.random() < 0.85:
            share = draws.choice((0.0, 0.1, 0.3, 0.8))
            wrong = [place for place in range(len(answer)) if draws.random() < share]
            source = Foreseen([*answer, *[0] * 40], wrong)
        return _Running(prompt, answer, gaps, source)

    def _compare_drafts(self, one: _Running, checked: Any, got: int) -> None:
        """Compare how many drafts were accepted with how many of them are right."""
        assert one.source is not None
        count = len(checked.guesses)
        # The drafts begin after the pending token, which is the first token of the step.
        begin = len(one.found) - got + 1
        drafts = one.source.proposed_at(begin, count)
        expected = 0
        for draft, token in zip(drafts, one.answer[begin:], strict=False):
            if draft != token:
                break
            expected += 1
        self.outcome.drafts += count
        self.outcome.accepted += got - 1
        is_known = begin + count <= len(one.answer)
        self.outcome.foreseen += expected if is_known else got - 1
        if not is_known or one.has_turned:
            return
        near = [place for place, gap in enumerate(one.gaps) if gap < NEAR]
        if got - 1 != expected and not any(begin <= n <= begin + count for n in near):
            self.outcome.faults.append(f"{got - 1} of {count} drafts accepted, not {expected}")

    def _compare(self, one: _Running) -> None:
        outcome = self.outcome
        found = one.found[: len(one.answer)]
        outcome.answers += 1
        outcome.tokens += len(found)
        outcome.near_ties += sum(gap < NEAR for gap in one.gaps[: len(found)])
        for place, (token, expected) in enumerate(zip(found, one.answer, strict=False)):
            if token != expected:
                one.has_turned = True
                if one.gaps[place] < NEAR:
                    outcome.turned += 1
                else:
                    outcome.faults.append(
                        f"token {place} of {len(one.answer)} after a prompt of {len(one.prompt)} "
                        f"is {token}, not {expected} (logits {one.gaps[place]:.3g} apart)"
                    )
                return
