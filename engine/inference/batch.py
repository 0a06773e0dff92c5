"""The running batch of one model: what each step reads, drafts and decodes, and its prompt cache.

Knows token ids only: no text and no request. mlx-lm gets no stops and no limits, because
``engine.output`` decides where an answer ends. Belongs to the thread that made it, as MLX's streams
do.
"""

import math
import time
from collections import abc, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits, RowStep, Step
from engine.inference.cache.index import MemoryUsage, key_of
from engine.inference.cache.prompt_cache import PromptCache
from engine.inference.cache.segments import sequence_view
from engine.inference.continuous_batch import ContinuousBatch
from engine.inference.drafts import Drafting
from engine.inference.embedding import TextsPass
from engine.inference.mlx_lm_internals import together
from engine.inference.prefill import PrefillPacer
from engine.inference.running_cache import extracted, is_sole
from engine.inference.sequence import Sequence
from engine.inference.shared_beginnings import SharedBeginnings
from engine.inference.speculation.cost import PassCosts
from engine.inference.speculation.head_drafts import OwnHead, head_of, without_head
from engine.values.events import CacheMiss

if TYPE_CHECKING:
    from engine.inference.vision.vision import Vision


class RunningBatch:
    """The rows that a model decodes together.

    ``cache_use`` is each owner's share of the prompt cache; another object when it changes.
    ``engine.distributed`` repeats each operation that changes the prompt cache in all processes.
    """

    def __init__(
        self,
        model: Any,
        limits: BatchLimits,
        costs: PassCosts | None = None,
        vision: "Vision | None" = None,
    ) -> None:
        self.cache_use: Mapping[str, MemoryUsage] = {}
        can, fresh = together(model), make_prompt_cache(model)
        if not can.answers or is_sole(fresh):
            limits = replace(limits, rows=1)
        if not can.chunks:
            limits = replace(limits, prefill_chunk=1)
        self.max_rows = limits.rows
        self.can_draft = limits.drafts and can.drafts
        self.is_shared = limits.is_shared
        self._stepped_at_s = 0.0
        self._steps = self._tokens_read = self._inserted = 0
        self.sequences: dict[int, Sequence] = {}
        self._batch = ContinuousBatch(
            model,
            limits.rows,
            pads_prompts=can.prompts,
            sequences=self.sequences,
            vision=vision,
            reads=limits.reads,
        )
        self.prompt_cache = PromptCache(
            fresh,
            limits.cache_bytes,
            is_shared=limits.is_shared,
            is_quantized=limits.cache_bits is not None,
        )
        self._beginnings = SharedBeginnings(
            self.sequences, can_cut=self.prompt_cache.can_cut_anywhere
        )
        self._drafting = Drafting(
            model, self.sequences, costs or PassCosts(), self._batch.set_deltas
        )
        head = head_of(model) if self.can_draft else None
        self.own_head = None if head is None else OwnHead(head.origin)
        self._pacer = PrefillPacer(limits.prefill_chunk)

    @property
    def vision(self) -> "Vision | None":
        """What the model sees; None for a model of text alone."""
        return self._batch.vision

    def insert(self, sequence: Sequence) -> int:
        """Add a sequence, or let it wait for another with the same beginning; return its number."""
        sequence.number, self._inserted = self._inserted, self._inserted + 1
        sequence.key = key_of(sequence.keys)
        if not self.can_draft:
            sequence.sources = ()
        self._begin_reading(sequence)
        self.prompt_cache.shrink_to()  # files or another sequence may have filled it beyond
        if not self.prompt_cache.can_cut_anywhere:
            self._plan_snapshots(sequence)
        self.sequences[sequence.number] = sequence
        sequence.disk_epoch = self.prompt_cache.disk_epoch(sequence.owner)
        self._note_use()
        return sequence.number

    def _begin_reading(self, sequence: Sequence) -> None:
        """Read a prompt from the end of its cached beginning, or once another has read more."""
        self._fetch(sequence)
        donor, shared = self._beginnings.find_donor(sequence)
        if donor is not None and donor.read < shared:
            self._beginnings.followers[sequence] = donor, shared
            if not self.prompt_cache.can_cut_anywhere:
                donor.snapshots_at.add(shared)
            return
        if donor is not None:
            self._store_beginning(donor, shared)
            self._fetch(sequence)
        self._batch.wait(sequence)

    def _fetch(self, sequence: Sequence) -> None:
        tokens, owner, scorer = sequence.keys, sequence.owner, sequence.scorer
        unscored = tokens if scorer is None else tokens[: scorer.begins + 1]
        with self._stream():
            sequence.cache, sequence.cached, from_disk = self.prompt_cache.fetch(
                owner.name, unscored
            )
        sequence.read = sequence.cached
        sequence.from_disk += from_disk
        sequence.cache_miss = self.prompt_cache.why_missing(owner.name, tokens, sequence.cached)
        if sequence.cache_miss is not None and scorer is not None:
            sequence.cache_miss = CacheMiss.SCORED

    def _store_beginning(self, donor: Sequence, tokens: int) -> None:
        with self._stream():
            cache, row, held = self._batch.cache_of(donor)
            if row is not None:
                beginning = sequence_view(without_head(cache), row)
                for part in beginning:
                    part.trim(len(held) - tokens)
                self.prompt_cache.store(donor.owner.name, held[:tokens], beginning)

    def _end_waits(self) -> list[Sequence]:
        """Let the sequences read on whose wait has ended; return them."""
        ready = self._beginnings.ready
        for sequence in ready:
            self._end_wait(sequence)
        # Only now: evicted before, a beginning would be copied again for each of them.
        if ready:
            self.prompt_cache.shrink_to()
        return ready

    def _end_wait(self, sequence: Sequence) -> None:
        del self._beginnings.followers[sequence]
        self._begin_reading(sequence)

    def _plan_snapshots(self, sequence: Sequence) -> None:
        tokens, cached = sequence.keys, sequence.cached
        # The next turn seldom repeats an answer token by token, so one is taken at the turn's end.
        last = len(tokens) - 1
        sequence.snapshots_at.add(min(sequence.turn_end or last, last))
        # Where this prompt diverges from an earlier one, later prompts may diverge, too.
        branch = self.prompt_cache.count_common(sequence.owner.name, tokens)
        if branch - cached >= self._beginnings.worth_tokens:
            sequence.snapshots_at.add(branch)
        # Their number depends on the memory, and all processes of a batch must store the same.
        if not self.is_shared:
            sequence.snapshots_at.update(self.prompt_cache.snapshot_positions(len(tokens), cached))

    def step(self) -> Step:
        """Decode the next tokens of each running row and read as much of the prompts as is fair."""
        ready = self._end_waits()
        decoding = len(self._batch.decoding)
        max_tokens = self._pacer.tokens(decoding) if self._batch.can_read else 0
        # Measured from step to step: the device decodes while the last step's tokens are handled.
        begin_s = self._stepped_at_s if decoding else time.perf_counter()
        step = None
        if self.can_draft and not self._batch.is_reading:
            groups = self._batch.decoding
            if self._drafting.is_due(groups):
                with self._stream():
                    groups.regroup_if_due()
                    step = self._drafting.step(groups.rows)
        is_plain = step is None
        if step is None:
            step = self._step(max_tokens)
        self._stepped_at_s = time.perf_counter()
        took_s = self._stepped_at_s - begin_s
        if is_plain and decoding and self.can_draft and not max_tokens:
            self._drafting.record_decode(decoding, len(self._batch.decoding.groups), took_s)
        if max_tokens:
            self._pacer.record_read(took_s, self._tokens_read, decoding)
        else:
            self._pacer.record_decode(took_s)
        self._steps += 1
        # Unused memory of MLX is freed after so many steps, as in mlx-lm's own loop.
        if self._steps % 512 == 0:
            mx.clear_cache()
        for sequence in ready:
            step[sequence.number].read = step[sequence.number].read or 0
        for sequence in self._beginnings.followers:
            step[sequence.number].read = self._beginnings.read_for(sequence)
        self._note_ends(step)
        self._read_drafts()
        return step

    def _note_ends(self, step: Step) -> None:
        """Note whose thinking has ended by its budget, and which sequences cannot go on.

        The draw from logits that are not numbers is the first or the last id, or the same at each
        step: the device is asked about these tokens only, because it delays the step.
        """
        suspects: list[tuple[Sequence, mx.array]] = []
        for number, row in step.items():
            sequence = self.sequences[number]
            for token_id, logprobs in row.sampled:
                is_same = token_id == sequence.last_token
                sequence.repeats = sequence.repeats + 1 if is_same else 0
                sequence.last_token = token_id
                if logprobs is not None and (
                    token_id in (0, logprobs.shape[-1] - 1) or sequence.repeats > 1
                ):
                    suspects.append((sequence, logprobs[token_id]))
                budget = sequence.thinking_budget
                if budget is not None and (end := budget.take(token_id)):
                    row.budget_end = end
            if row.scores is not None and any(map(math.isnan, row.scores.logprobs[-1:])):
                sequence.is_invalid = row.is_invalid = True
        if suspects:
            are_nan: Any = mx.isnan(mx.stack([logprob for _, logprob in suspects])).tolist()
            for (sequence, _), is_nan in zip(suspects, are_nan, strict=True):
                if is_nan:
                    sequence.is_invalid = step[sequence.number].is_invalid = True
        for number, sequence in self.sequences.items():
            if sequence.constraint is not None and sequence.constraint.failure is not None:
                step[number].failure = (
                    f"the answer could not be constrained: {sequence.constraint.failure}; simplify "
                    "the schema, regular expression or grammar"
                )
            elif sequence.failure:
                step[number].failure = sequence.failure

    def _read_drafts(self) -> None:
        """Let the draft model read on in the prompt in which it is furthest behind."""
        drafts = [one.draft for one in self.sequences.values() if one.draft is not None]
        behind = max(drafts, key=lambda draft: draft.unread, default=None)
        if behind is not None and behind.unread:
            begin_s = time.perf_counter()
            behind.read_on(self._pacer.tokens(0))  # a draft model reads faster
            self._record_pause(time.perf_counter() - begin_s)

    def resume(self) -> None:
        """Note that other work ran since the last step; this batch does not count its time."""
        self._stepped_at_s = time.perf_counter()

    def _record_pause(self, took_s: float, tokens: int = 0) -> None:
        self._pacer.record_pause(took_s, len(self._batch.decoding), tokens)
        # The time of the next step does not include it.
        self._stepped_at_s += took_s

    def read_texts(self, texts: TextsPass) -> None:
        """Read a part of the texts of a request, unless the streams are behind."""
        max_tokens = self._pacer.tokens(len(self._batch.decoding))
        if not max_tokens:
            return
        if self.vision is not None:
            self.vision.set_deltas(())
        begin_s = time.perf_counter()
        with self._stream():
            tokens = texts.read(self._batch.model, max_tokens)
        self._record_pause(time.perf_counter() - begin_s, tokens)

    def _step(self, max_tokens: int) -> Step:
        """Decode, and read up to ``max_tokens`` tokens of prompts, whatever the time."""
        step: Step = defaultdict(RowStep)
        for part in self._batch.decode():
            step[part.uid].sampled.append((part.token, part.logprobs))
        if max_tokens and self._batch.can_read:
            max_s = self._pacer.read_s(len(self._batch.decoding))
            group, counts, scores = self._batch.read(max_tokens, max_s)
            self._tokens_read = sum(counts.values())
            for number, scored in scores.items():
                step[number].scores = scored
            for sequence, count in counts.items():
                sequence.read += count
                step[sequence.number].read = sequence.read - sequence.cached
                if count and sequence.read in sequence.snapshots_at:
                    self._store_snapshot(sequence)
            self._batch.begin_decoding(group)
            self._note_use()
        return step

    def _store_snapshot(self, sequence: Sequence) -> None:
        with self._stream():
            cache, index, tokens = self._batch.cache_of(sequence)
            assert index is not None
            self._store(sequence, sequence_view(without_head(cache), index), tokens)

    def _store(self, sequence: Sequence, cache: Any, tokens: list[int] | None) -> None:
        with self._stream():
            self.prompt_cache.keep(sequence.owner, sequence.disk_epoch, cache, tokens)

    def _stream(self) -> Any:
        return mx.stream(self._batch.stream)

    def remove(self, rows: Mapping[int, int]) -> None:
        """Take sequences out, each with how many tokens of the last step follow its end."""
        removed = self._extract(rows)
        for sequence in removed:
            if (unused := rows[sequence.number]) and sequence.cache and sequence.held:
                with self._stream():
                    if not self._drafting.shorten(sequence.number, sequence.cache, unused):
                        sequence.cache = sequence.held = None
                        continue
                sequence.held = sequence.held[:-unused]
        self._release(removed)

    def _extract(self, rows: Iterable[int]) -> list[Sequence]:
        """Remove sequences; return them in order, with their caches."""
        removed = [self.sequences[number] for number in rows if number in self.sequences]
        joined = []
        for sequence in removed:
            if self._beginnings.followers.pop(sequence, None) is None:
                joined.append(sequence)
            else:
                sequence.cache = None
        for sequence, (cache, held) in self._batch.remove(joined).items():
            sequence.cache, sequence.held = extracted(without_head(cache)), held
        for sequence in removed:
            del self.sequences[sequence.number]
        self._drafting.remove(sequence.number for sequence in removed)
        return removed

    def _release(self, removed: abc.Sequence[Sequence]) -> None:
        """Store the caches of removed sequences."""
        try:
            for sequence in removed:
                if not sequence.is_invalid:
                    self._store(sequence, sequence.cache, sequence.held)
            self._note_use()
            for sequence in removed:
                if sequence.draft is not None:
                    sequence.draft.finish()
        except BaseException:  # the draft model counts the answers that it drafts for
            for sequence in removed:
                if sequence.draft is not None:
                    sequence.draft.abandon()
            raise

    @property
    def cached_bytes(self) -> int:
        return sum(share.size_bytes for share in self.cache_use.values())

    def _note_use(self) -> None:
        if (use := self.prompt_cache.usage) != self.cache_use:
            self.cache_use = use

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes."""
        held = self.prompt_cache.usage.get(owner, MemoryUsage())
        self.prompt_cache.clear(owner)
        if self.vision is not None:
            self.vision.forget(owner)
        self._note_use()
        mx.clear_cache()
        return held.entries, held.size_bytes

    def evict_prompts(self, max_bytes: int | None = None) -> None:
        self.prompt_cache.shrink_to(size_bytes=max_bytes)
        self._note_use()

    def reset(self) -> abc.Sequence[int]:
        """Drop the rows of a batch after a step that failed; return the rows that continue."""
        self._batch.clear()
        for sequence in list(self.sequences.values()):
            if sequence not in self._beginnings.followers:
                del self.sequences[sequence.number]
                if sequence.draft is not None:
                    sequence.draft.abandon()
        self._drafting.clear()
        return list(self.sequences)

    def fault(self) -> str:
        """Return why no step can finish any more; empty where one can. Any thread."""
        return ""

    def close(self) -> None:
        self.sequences.clear()
        self._beginnings.followers.clear()
        self.prompt_cache.clear()
        self._batch.close()
        del self._drafting
        mx.clear_cache()
