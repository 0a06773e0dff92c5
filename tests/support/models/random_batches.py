"""Random batches that join, leave, are cancelled and go on in later turns, with drafts or without.

Later turns go on from an answer, ask again, or edit what is before it; their beginnings come from
memory or from disk, where a batch before left them. What the bare model would answer is computed
alone, token by token, for each answer. Where its two best logits are nearly equal, rounding may
choose, and both answers are right: that is counted.
"""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.cache import index, prompt_cache
from engine.inference.cache.disk import DiskCache, stamps_of
from engine.inference.mlx_lm_internals import together
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.head_drafts import HeadDrafts
from engine.inference.speculation.sources import DraftSource
from engine.values.request import CacheOwner
from tests.support.models.architectures import VOCABULARY
from tests.support.models.guessing import Eager, Foreseen

NEAR = 1e-3
_CHUNK = 16
_OWNER = CacheOwner("me", "a conversation")
# Snapshots are close, and few tokens are worth a file, so that short conversations have them.
_STRIDE, _FEW = 24, 8
# A longer conversation does not go on; and so many can.
_MAX_TOKENS, _MAX_TURNS = 120, 12
_PATIENCE_S = 60


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
        cached: Tokens of prompts whose caches earlier answers had left.
        from_disk: Those of them that were read from disk.
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
    cached: int = 0
    from_disk: int = 0
    faults: list[str] = field(default_factory=list)


class PlainLoop:
    """The bare model at temperature 0: one sequence, one token at a time.

    It reads a prompt in chunks, where mlx-lm does that rightly.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._chunk = _CHUNK if together(model).chunks else 1

    def answer(
        self, prompt: Sequence[int], tokens: int, ends: Sequence[int] = ()
    ) -> tuple[list[int], list[float]]:
        """Return the answer, and how far apart the two best logits of each token are.

        ``ends`` are the ends of the parts in which the prompt is read; by default all are as long.
        """
        cache = make_prompt_cache(self._model)
        read, last = 0, len(prompt) - 1
        for end in (*(ends or range(self._chunk, last, self._chunk)), last):
            if read < (end := min(end, last)):
                self._model(mx.array([list(prompt[read:end])]), cache=cache)
                mx.eval([one.state for one in cache])
                read = end
        token, answer, gaps = prompt[-1], [], []
        for _ in range(tokens):
            logits = self._model(mx.array([[token]]), cache=cache)[0, -1]
            best = mx.sort(logits)[-2:]
            token = int(mx.argmax(logits).item())
            answer.append(token)
            gaps.append(float((best[1] - best[0]).item()))
        return answer, gaps


class _Running:
    """An answer in the batch, and what it is compared with."""

    def __init__(
        self,
        prompt: list[int],
        length: int,
        answer: list[int],
        gaps: list[float],
        source: Foreseen | None,
    ) -> None:
        self.prompt, self.length = prompt, length
        self.answer, self.gaps, self.source = answer, gaps, source
        self.found: list[int] = []
        # How far its prompt was read after each step.
        self.read: list[int] = []
        self.has_turned = False


class RandomBatches:
    """Runs random batches of one model and compares them with the bare model.

    Args:
        model: The model.
        seed: Where the random choices begin.
        rows: The most sequences at once.
        drafts: Whether drafts are made, right and wrong ones.
        head: Whether the model's own head or assistant drafts, which is attached to it.
        disk: An empty folder, in which one batch leaves caches for the next; None for none.
    """

    def __init__(
        self,
        model: Any,
        seed: int,
        *,
        rows: int = 3,
        drafts: bool = True,
        head: bool = False,
        disk: Path | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._model = model
        self._draws = random.Random(seed)
        self._rows = rows
        self._drafts = drafts
        self._head = head
        self._plain = PlainLoop(model)
        # Where what a model sees depends on the parts in which a prompt is read, the bare model
        # answers afterwards and reads the same parts; nothing comes from caches.
        can = together(model)
        self._depends_on_parts = can.chunks and not can.drafts
        self._folder = None if self._depends_on_parts else disk
        # Prompts with their answers, which can go on or be asked otherwise.
        self._turns: list[tuple[list[int], list[int]]] = []

    def run(self, answers: int) -> Outcome:
        """Run a batch in which so many answers are given."""
        with (
            patch.multiple(
                prompt_cache,
                STRIDE=_STRIDE,
                MIN_DISK_TOKENS=_FEW,
            ),
            patch.object(index, "BLOCK_TOKENS", 4 * _FEW),
            self._disk() as disk,
        ):
            self._run(answers, disk)
        return self.outcome

    @contextmanager
    def _disk(self) -> Iterator[DiskCache | None]:
        """Open the caches on disk; what waits is written in the end."""
        if self._folder is None:
            yield None
            return
        disk = DiskCache(self._folder / "caches", 1 << 30)
        try:
            yield disk
        finally:
            disk.close()

    def _attach(self, batch: RunningBatch, disk: DiskCache) -> None:
        """Let a batch use the caches on disk, those of a folder that looks like a model's."""
        assert self._folder is not None
        model = self._folder / "model"
        if not model.exists():
            model.mkdir()
            (model / "config.json").write_text(json.dumps({"model_type": "none"}))
            mx.save_safetensors(str(model / "model.safetensors"), {"weight": mx.ones((4, 4))})
        batch.prompt_cache.attach(disk, model, stamps_of(model))

    def _read(self, batch: RunningBatch, prompt: list[int]) -> None:
        """Read what the disk has of a prompt."""
        if batch.prompt_cache.is_on_disk(_OWNER, prompt):
            batch.prompt_cache.read([(_OWNER, prompt)]).result(_PATIENCE_S)

    def _run(self, answers: int, disk: DiskCache | None) -> None:
        draws = self._draws
        width = draws.choice((2, 4, 8, 12))
        room = draws.choice((1 << 26, 1 << 26, 20_000)) if not self._depends_on_parts else 0
        batch = RunningBatch(self._model, BatchLimits(_CHUNK, room, 8), Eager(width))
        if disk is not None:
            self._attach(batch, disk)
        running: dict[int, _Running] = {}
        left = answers
        while left or running:
            while left and len(running) < self._rows and (not running or draws.random() < 0.3):
                left -= 1
                one = self._made()
                sources: list[DraftSource] = [] if one.source is None else [one.source]
                if self._head:
                    assert batch.own_head is not None
                    sources.append(HeadDrafts(batch.own_head))
                self._read(batch, one.prompt)
                sequence = BatchSequence(one.prompt, owner=_OWNER, sources=sources)
                running[batch.insert(sequence)] = one
                self.outcome.cached += sequence.cached
                self.outcome.from_disk += sequence.from_disk
            step = batch.step()
            for number, row in step.items():
                if row.read is not None:
                    running[number].read.append(row.read)
                running[number].found += [token for token, _ in row.sampled]
                if (checked := row.drafts) is None:
                    continue
                if batch.own_head is not None and batch.own_head.origin in checked.drafts:
                    self.outcome.head_drafts += len(checked.drafts)
                    self.outcome.head_accepted += len(row.sampled) - 1
                else:
                    self._compare_drafts(running[number], checked, len(row.sampled))
            gone = {}
            for number in [*running]:
                one = running[number]
                # Some are cancelled, which happens between two steps.
                surplus = len(one.found) - one.length
                if surplus >= 0 or (one.found and draws.random() < 0.01):
                    gone[number] = max(0, surplus)
                    del running[number]
                    self._compare(one)
                    answer = one.found[: one.length]
                    if not one.has_turned and len(one.prompt) + len(answer) <= _MAX_TOKENS:
                        self._turns = [*self._turns[1 - _MAX_TURNS :], (one.prompt, answer)]
            if gone:
                batch.remove(gone)
        batch.close()

    def _prompt(self) -> list[int]:
        """Return a prompt: a first one, a next turn, the same again, or one with an edit."""
        draws = self._draws
        more = [draws.randrange(VOCABULARY) for _ in range(draws.randint(1, 30))]
        if not self._turns or draws.random() < 0.35:
            return more
        prompt, answer = draws.choice(self._turns)
        turn = [*prompt, *answer]
        match draws.choice(("next", "next", "next", "edit", "edit", "again")):
            case "next":
                return [*turn, *more]
            case "edit":
                return [*turn[: draws.randrange(len(turn))], *more]
            case _:
                return prompt

    def _made(self) -> _Running:
        """Return a fresh answer and what it is compared with."""
        draws = self._draws
        prompt = self._prompt()
        length = draws.randint(4, 24)
        if self._depends_on_parts:
            return _Running(prompt, length, [], [], None)
        answer, gaps = self._plain.answer(prompt, length)
        source = None
        if self._drafts and draws.random() < 0.85:
            share = draws.choice((0.0, 0.1, 0.3, 0.8))
            wrong = [place for place in range(len(answer)) if draws.random() < share]
            source = Foreseen([*answer, *[0] * 40], wrong)
        return _Running(prompt, length, answer, gaps, source)

    def _compare_drafts(self, one: _Running, checked: Any, got: int) -> None:
        """Compare how many drafts were accepted with how many of them are right."""
        assert one.source is not None
        count = len(checked.drafts)
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
        found = one.found[: one.length]
        if self._depends_on_parts:
            one.answer, one.gaps = self._plain.answer(one.prompt, one.length, one.read)
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
