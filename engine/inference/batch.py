"""The running batch of one model: mlx-lm's generators, what each step reads, and its prompt cache.

Knows token ids only: no text and no request. mlx-lm's ``BatchGenerator`` gets no stops and no
limits, because ``engine.output`` decides where an answer ends. Belongs to the thread that made it,
as MLX's streams do.
"""

import contextlib
import math
import time
import weakref
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, PromptProcessingBatch
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import maybe_set_recommended_wired_limit

from engine.grammar.masks import settle
from engine.inference.backend import BatchLimits, PromptCacheUse, Step
from engine.inference.cache.index import HeldInMemory
from engine.inference.cache.prompt_cache import PromptCache
from engine.inference.cache.segments import sequence_view
from engine.inference.drafts import Drafting
from engine.inference.embedding import TextReader
from engine.inference.mlx_lm_internals import (
    DecodingRows,
    decode_together,
    decoding_rows,
    prompt_tokens_read,
    read_as,
    reading_sequence,
    set_reading,
    straighten_windows,
    together,
)
from engine.inference.prefill import NO_PREFILL, READ_TOGETHER, PrefillBudget
from engine.inference.running_cache import is_sole, prepare_to_run
from engine.inference.sequence import LANES, WORTH_TOKENS, PromptScorer, Sequence, Sequences
from engine.inference.speculation.cost import CostCurve, PassCosts
from engine.inference.speculation.head_drafts import OwnHead, head_of, without_head
from engine.values.events import CacheMiss
from engine.values.tokens import PromptScores


class _ScoringPrompts(PromptProcessingBatch):  # type: ignore[misc]  # mlx-lm has no types
    """Prompts that are read together; some of them are scored meanwhile."""

    sequences: Mapping[int, Sequence]
    scores: list[tuple[int, PromptScores]]

    def prompt(self, tokens: list[list[int]]) -> None:
        """Read the next tokens of each prompt."""
        rows = self._scored_rows(tokens)
        if not rows:
            super().prompt(tokens)
            return
        begun = [len(sequence) for sequence in self.tokens]
        counts = [len(sequence) for sequence in tokens]
        model: Any = self.model  # type: ignore[has-type]
        read = 0

        def reading(inputs: mx.array, cache: Any = None) -> Any:
            nonlocal read
            logits = model(inputs, cache=cache)
            for index, number, scorer in rows:
                count = min(inputs.shape[1], counts[index] - read)  # the rest is padding
                if count > 0:
                    scores = scorer.score(logits[index, :count], begun[index] + read)
                    if scores is not None:
                        self.scores.append((number, scores))
            read += inputs.shape[1]
            return logits

        self.model = reading
        try:
            super().prompt(tokens)
        finally:
            self.model = model

    def _scored_rows(self, tokens: list[list[int]]) -> list[tuple[int, int, PromptScorer]]:
        """Return the index, the number and the scorer of each row whose logits are wanted."""
        scored = []
        for index, number in enumerate(self.uids):
            scorer = self.sequences[number].scorer
            if scorer is not None and len(self.tokens[index]) + len(tokens[index]) > scorer.begins:
                scored.append((index, number, scorer))
        return scored


# The generators of all models in memory. They share one limit of wired memory: macOS may page out
# weights beyond it, which makes them slow.
_open: "weakref.WeakSet[Generators]" = weakref.WeakSet()


class Generators:
    """One generator for each lane; all of them decode in the batch of the first."""

    def __init__(self, model: Any, limits: BatchLimits, *, is_cut_anywhere: bool) -> None:
        self.model = model
        self.scores: list[tuple[int, PromptScores]] = []
        self._chunk = limits.prefill_chunk
        self._rows = limits.rows
        self._is_cut_anywhere = is_cut_anywhere
        self.lanes: list[Any] = []
        self.sequences = Sequences(self.lanes, is_cut_anywhere=is_cut_anywhere)
        self.lanes += self._made()
        _open.add(self)

    def _made(self) -> list[Any]:
        lanes = [
            BatchGenerator(
                self.model,
                completion_batch_size=self._rows,
                prefill_batch_size=min(READ_TOGETHER, self._rows),
                prefill_step_size=self._chunk,
            )
            for _ in range(LANES)
        ]
        decode_together(lanes)
        for lane in lanes:
            read_as(
                lane,
                _ScoringPrompts,
                sequences=self.sequences.by_number,
                scores=self.scores,
            )
        return lanes

    def stream(self) -> Any:
        """Return a context in which MLX works on the batch's stream."""
        return mx.stream(self.lanes[0].stream)

    def next(self, chunk: int, lane: int, together: int) -> tuple[list[Any], list[Any]]:
        """Decode, and read prompts if ``chunk`` is not 0.

        The result depends on the arguments and the rows only, never on the clock.
        """
        batch = self.lanes[lane if chunk else 0]
        # mlx-lm reads nothing for a batch that is full: a limit of 0 rows turns reading off.
        set_reading(batch, chunk, self._rows if chunk else 0, together)
        read, sampled = batch.next()
        if read:
            prepare_to_run(DecodingRows(batch).cache)
            if not self._is_cut_anywhere:
                with self.stream():
                    straighten_windows(batch)
        if self.sequences.reading:
            for part in sampled:
                sequence = self.sequences.by_number[part.uid]
                if sequence.lane is not None:
                    self.sequences.begins_to_decode(sequence)
        return read, sampled

    def renew(self) -> None:
        """Drop all rows, after a step that failed."""
        self._close_lanes()
        self.scores.clear()
        self.lanes[:] = self._made()

    def close(self) -> None:
        """Free the rows and the model."""
        self._close_lanes()
        _open.discard(self)
        if _open:
            # Closing restored the limit that this one had found, perhaps from before the others
            # opened.
            maybe_set_recommended_wired_limit()
        self.lanes.clear()
        del self.model

    def _close_lanes(self) -> None:
        # The last one first: each restores the memory limit that it found.
        for batch in reversed(self.lanes):
            with contextlib.suppress(Exception):  # after a step that failed
                batch.close()


class RunningBatch:
    """The rows that a model decodes together.

    Args:
        model: The model; called as mlx-lm calls it.
        limits: The limits of the batch.
        new_curve: Makes an empty record of the costs of passes, for one number of rows.

    Attributes:
        cache_use: The state of the prompt cache; another object whenever it changes.
        prompts: The prompt cache.
        costs: What passes of the model cost.
        can_guess: Whether it checks guesses; if not, it ignores all sources.
        own_head: The model's own draft head, a source for every answer; None where it has none.
    """

    # Whether no other process decodes the same batch.
    is_alone = True

    def __init__(
        self, model: Any, limits: BatchLimits, new_curve: Callable[[], CostCurve] = CostCurve
    ) -> None:
        self.cache_use = PromptCacheUse()
        can, fresh = together(model), make_prompt_cache(model)
        if not can.answers or is_sole(fresh):
            limits = replace(limits, rows=1)
        if not can.chunks:
            limits = replace(limits, prefill_chunk=1)
        self.can_guess = limits.guesses and can.drafts
        # Tokens of the prompts that joined the running rows in the last step.
        self._joined_tokens = 0
        self._stepped_at_s = 0.0
        self._most_read = limits.prefill_chunk
        self.prompts = PromptCache(fresh, limits.cache_bytes, self._stream, is_alone=self.is_alone)
        self._generators = Generators(model, limits, is_cut_anywhere=self.prompts.is_cut_anywhere)
        self._lanes, self.sequences = self._generators.lanes, self._generators.sequences
        self.costs = PassCosts(new_curve)
        self._drafting = Drafting(model, self.sequences.by_number, self.costs)
        head = head_of(model) if self.can_guess else None
        self.own_head = None if head is None else OwnHead(head.origin)
        self._budget = PrefillBudget(
            limits.prefill_chunk, limits.rows if can.prompts else 1, self.sequences.reading
        )

    def insert(self, sequence: Sequence) -> int:
        """Add a sequence; return its number.

        One that shares a long beginning with another may wait until the other has read it; see
        ``Step.shared``.
        """
        tokens, owner, scorer = sequence.tokens, sequence.owner, sequence.scorer
        unscored = tokens if scorer is None else tokens[: scorer.begins + 1]
        loaded, sequence.loaded = sequence.loaded, None
        with self._stream():
            sequence.cache, sequence.cached, sequence.from_disk = self.prompts.fetch(
                owner, unscored, loaded if scorer is None else None
            )
        sequence.cache_miss = self.prompts.why_missing(owner, tokens, sequence.cached)
        if sequence.cache_miss is not None and scorer is not None:
            sequence.cache_miss = CacheMiss.SCORED
        if not self.prompts.is_cut_anywhere:
            self._plan_snapshots(sequence)
        if not self.can_guess:
            sequence.sources = ()
        self.sequences.add(sequence)
        sequence.ticket = self.prompts.ticket(owner)
        self._note_use()
        return sequence.number

    def _plan_snapshots(self, sequence: Sequence) -> None:
        """Choose where snapshots are taken while a prompt is read."""
        tokens, cached = sequence.tokens, sequence.cached
        # The next turn seldom repeats an answer token by token, so one is taken at the turn's end.
        last = len(tokens) - 1
        sequence.snapshots_at.add(min(sequence.turn_end or last, last))
        # Where this prompt diverges from an earlier one, later prompts may diverge, too.
        branch = self.prompts.index.common(sequence.owner.name, tokens)
        if branch - cached >= WORTH_TOKENS:
            sequence.snapshots_at.add(branch)
        sequence.snapshots_at |= self.prompts.snapshot_places(
            len(tokens), cached, sequence.message_ends
        )

    def step(self) -> Step:
        """Decode the next tokens of each running row and read as much of the prompts as is fair."""
        decoding = decoding_rows(self._lanes[0])
        prefill, was_read = NO_PREFILL, 0
        if self.sequences.reading:
            prefill = self._budget.plan(decoding)
            if prefill.chunk:
                was_read = prompt_tokens_read(self._lanes[prefill.lane])
        is_beside = bool(self.sequences.reading)
        # Measured from step to step: the device decodes while the last step's tokens are handled.
        begin_s = self._stepped_at_s if decoding else time.perf_counter()
        step = self._guessed() if decoding and self.can_guess and not prefill.chunk else None
        is_plain = step is None
        if step is None:
            step = self._step(prefill.chunk, prefill.lane, prefill.together)
        self._stepped_at_s = time.perf_counter()
        took_s = self._stepped_at_s - begin_s
        if is_plain and self.can_guess:
            self._drafting.decoded(step.sampled, None if is_beside else took_s)
        if decoding and self._joined_tokens:
            self._budget.joined(self._joined_tokens, took_s)
        if prefill.chunk:
            tokens = prompt_tokens_read(self._lanes[prefill.lane]) - was_read
            self._budget.read(
                took_s,
                tokens,
                is_whole=tokens >= prefill.chunk,
                decoding=decoding,
                reading=prefill.prompts,
                lane=prefill.lane,
                depth=prefill.depth,
            )
        else:
            given = 1.0 if is_plain else len(step.sampled) / decoding
            self._budget.decoded(took_s, decoding, tokens=given, is_beside=is_beside)
        step.shared = self.sequences.take_shared()
        self._end_reasoning(step)
        step.failed = self._failed()
        step.invalid = self._find_invalid(step)
        self._follow(step)
        return step

    def _find_invalid(self, step: Step) -> set[int]:
        """Return the sequences whose logits are not numbers.

        The draw from such logits is the first or the last id, and the same at each step: the
        device is asked about these tokens only.
        """
        suspects: list[tuple[int, mx.array]] = []
        for number, token_id, logprobs in step.sampled:
            sequence = self.sequences.by_number[number]
            if logprobs is not None and (
                token_id in (0, logprobs.shape[-1] - 1) or token_id == sequence.last_token
            ):
                suspects.append((number, logprobs[token_id]))
            sequence.last_token = token_id
        invalid = {
            number for number, scores in step.scored if any(map(math.isnan, scores.logprobs[-1:]))
        }
        if suspects:
            are_nan: Any = mx.isnan(mx.stack([logprob for _, logprob in suspects])).tolist()
            invalid |= {
                number for (number, _), is_nan in zip(suspects, are_nan, strict=True) if is_nan
            }
        for number in invalid:
            self.sequences.by_number[number].is_invalid = True
        return invalid

    def _end_reasoning(self, step: Step) -> None:
        """Note in a step the sequences whose reasoning their budget ends."""
        for number, token_id, _ in step.sampled:
            budget = self.sequences.by_number[number].budget
            if budget is not None and (end := budget.take(token_id)):
                step.budget_ends.append((number, end))

    def _failed(self) -> list[tuple[int, str]]:
        """Return the sequences whose answer can no longer meet its constraint, and why."""
        held = [
            (number, sequence.constraint)
            for number, sequence in self.sequences.by_number.items()
            if sequence.constraint is not None
        ]
        if not held:
            return []
        settle([constraint for _, constraint in held])
        failures = ((number, constraint.failure) for number, constraint in held)
        return [(number, failure) for number, failure in failures if failure is not None]

    def _follow(self, step: Step) -> None:
        """Tell the draft model how far prompts have been read, and let it read on."""
        drafted = [
            drafting for drafting in self.sequences.by_number.values() if drafting.draft is not None
        ]
        if not drafted:
            return
        for number, tokens in step.read:
            sequence = self.sequences.by_number[number]
            if sequence.draft is not None:
                sequence.draft.follow(sequence.cached + tokens)
        # It reads the prompt in which it is furthest behind.
        behind = max(
            (drafting.draft for drafting in drafted if drafting.draft),
            key=lambda draft: draft.unread,
        )
        if behind.unread:
            self.read_beside(behind.read_on)

    def resume(self) -> None:
        """Note that other work ran since the last step; this batch does not count its time."""
        self._stepped_at_s = time.perf_counter()

    def read_beside(self, read: Callable[[float], object]) -> None:
        """Let something else be read, unless the streams are behind their pace.

        Args:
            read: Reads for about the given number of seconds.
        """
        decoding = decoding_rows(self._lanes[0])
        most_s = self._budget.free_s(decoding)
        if not most_s:
            return
        begin_s = time.perf_counter()
        read(most_s)
        took_s = time.perf_counter() - begin_s
        self._budget.waited(took_s, decoding)
        # The time of the next step does not include it.
        self._stepped_at_s += took_s

    def text_reader(self, texts: abc.Sequence[abc.Sequence[int]], **wanted: Any) -> TextReader:
        """Return what reads texts that become vectors, through ``read_texts``.

        Args:
            texts: The tokens of each text.
            wanted: The other arguments of ``TextReader``.

        Raises:
            InvalidRequest: The model shows no hidden states.
        """
        max_tokens = self._most_read
        with self._stream():
            return TextReader(self._generators.model, texts, most_tokens=max_tokens, **wanted)

    def read_texts(self, reader: TextReader) -> None:
        """Read a part of some texts, unless the streams are behind their pace."""

        def read(most_s: float) -> None:
            with self._stream():
                reader.read(most_s)

        self.read_beside(read)

    def _guessed(self) -> Step | None:
        """Check guesses, if that pays; None where the plain loop is due."""
        rows = DecodingRows(self._lanes[0])
        if not self._drafting.is_due(rows.numbers):
            return None
        with self._stream():
            return self._drafting.step(rows)

    def _step(self, chunk: int, lane: int, together: int) -> Step:
        """Decode, and read prompts if ``chunk`` is not 0.

        The result depends on the arguments and the rows only, never on the clock.
        """
        self._joined_tokens = 0
        read, sampled = self._generators.next(chunk, lane, together)
        scored = [*self._generators.scores]
        self._generators.scores.clear()
        return Step(
            self._progress(read),
            [(part.uid, part.token, part.logprobs) for part in sampled],
            scored=scored,
        )

    def _progress(self, read: abc.Sequence[Any]) -> list[tuple[int, int]]:
        """Return how much the sequences have read, and the progress of those that wait for them."""
        progress: list[tuple[int, int]] = []
        for part in read:
            sequence = self.sequences.by_number[part.uid]
            waiting = self.sequences.has_read(sequence, part.progress[0])
            progress += [(part.uid, part.progress[0]), *waiting]
            if part.end_of_prompt:
                self._joined_tokens += len(sequence)
            if sequence.read in sequence.snapshots_at:
                self._store_snapshot(sequence)
        if read:
            self._note_use()
        return progress

    def _store_snapshot(self, sequence: Sequence) -> None:
        """Store what a sequence has read so far of its prompt."""
        batch = self._lanes[sequence.lane or 0]
        with self._stream():
            cache, index, tokens = reading_sequence(batch, sequence.number)
            self._store(sequence, sequence_view(without_head(cache), index), tokens)

    def _store(self, sequence: Sequence, cache: Any, tokens: list[int] | None) -> None:
        self.prompts.store(sequence.owner, sequence.ticket, cache, tokens)

    def _stream(self) -> Any:
        return self._generators.stream()

    def leave(self, rows: Mapping[int, int]) -> None:
        """Take sequences out at any time, and store their caches for the next turns.

        Args:
            rows: Their numbers, each with how many of the last step's tokens its reader did not
                get.
        """
        gone = self._taken_out(rows)
        for sequence in gone:
            if (unused := rows[sequence.number]) and sequence.cache and sequence.held:
                with self._generators.stream():
                    if not self._drafting.cut(sequence.number, sequence.cache, unused):
                        sequence.cache = sequence.held = None
                        continue
                sequence.held = sequence.held[:-unused]
        self._let_go(gone)

    def _taken_out(self, rows: Iterable[int]) -> list[Sequence]:
        """Take sequences out, lane by lane; return them in order."""
        self._drafting.left()
        return self.sequences.take_out(rows)

    def _let_go(self, gone: abc.Sequence[Sequence]) -> None:
        """Store the caches of sequences that were taken out; those that waited read on."""
        self.sequences.let_go(gone)
        for sequence in gone:
            if not sequence.is_invalid:
                self._store(sequence, sequence.cache, sequence.held)
        self._note_use()
        for sequence in gone:
            if sequence.draft is not None:
                sequence.draft.leave()

    def _note_use(self) -> None:
        """Make a new ``cache_use`` if anything has changed."""
        index = self.prompts.index
        use = PromptCacheUse(
            entries=len(index),
            size_bytes=index.size_bytes,
            hits=self.sequences.hits,
            hit_tokens=self.sequences.hit_tokens,
            shares=index.shares,
        )
        if use != self.cache_use:
            self.cache_use = use

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes."""
        held = self.prompts.index.shares.get(owner, HeldInMemory())
        self.prompts.index.clear(owner)
        self._note_use()
        mx.clear_cache()
        return held.entries, held.size_bytes

    def evict_prompts(self, max_bytes: int) -> None:
        """Evict the least recently used cached prompts until the rest takes at most so much."""
        self.prompts.index.shrink_to(size_bytes=max_bytes)
        self._note_use()

    def reset(self) -> abc.Sequence[int]:
        """Drop the batch itself after a step that failed, and the rows that were in it.

        Returns:
            The rows that continue: those that waited for one of the others.
        """
        self._generators.renew()
        for sequence in self.sequences.begin_anew():
            if sequence.draft is not None:
                sequence.draft.forget()
        self._drafting.begin_anew()
        return list(self.sequences.by_number)

    def close(self) -> None:
        """Free the rows, the kept prompts and the model; remember what its passes cost."""
        self.costs.save()
        self._generators.close()
        self.sequences.clear()
        self.prompts.index.clear()
        del self._drafting
        mx.clear_cache()
