"""The sequences of a batch: each owns all that its request needs, from its arrival until it leaves.

A prompt that shares a long beginning with a sequence of its owner takes it from that sequence: at
once, or as soon as the sequence has read it. Only sequences of one owner share: nobody learns from
a number or from the time what another asks. Nothing here knows a clock, so that several processes
that decode together come to the same result. Belongs to the thread of the batch.
"""

from array import array
from collections import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from engine.grammar.masks import TokenConstraint
from engine.inference.cache.folder import TOKEN_BYTES, Ticket
from engine.inference.cache.index import LoadedPrefix, common_tokens, key_of
from engine.inference.cache.segments import beginning_of
from engine.inference.mlx_lm_internals import insert_sequence, stop_reading_at
from engine.inference.running_cache import joining, taken_out
from engine.inference.sampling import greedy
from engine.inference.speculation.draft_model import ModelDrafts
from engine.inference.speculation.head_drafts import HeadDrafts, with_head, without_head
from engine.inference.speculation.sources import DraftSource
from engine.inference.thinking_budget import BudgetProcessor
from engine.values.events import CacheMiss
from engine.values.request import PERSON, CacheOwner
from engine.values.tokens import PromptScores, PromptScoring

# Reading a prompt gives the model's logits after each of its tokens, which mlx-lm drops. For a
# sequence that needs them, they are taken from each chunk as it is read, and only a few numbers per
# token are kept: the logits of a whole prompt would not fit into memory.

# About the most memory for the logits of all prompts that are read in one step.
_LOGITS_BYTES = 128 << 20
# Bytes per logit: the logit itself, and its copy as a 32-bit number.
_BYTES_EACH = 8
_FEWEST = 16


class PromptScorer:
    """Scores the tokens of one prompt.

    Args:
        tokens: The prompt.
        wanted: Which tokens are scored, and with which figures.
        vocabulary_size: How many ids the model can produce.

    Attributes:
        begins: The first token whose logits are needed. The tokens before it may come from a cache.
    """

    def __init__(
        self, tokens: abc.Sequence[int], wanted: PromptScoring, vocabulary_size: int
    ) -> None:
        self.begins = max(0, wanted.start - 1)
        self._tokens = tokens
        self._wanted = wanted
        self._size = vocabulary_size

    def most_tokens(self, prompts: int) -> int:
        """Return how many tokens may be read in one step.

        Args:
            prompts: How many prompts are read together.
        """
        return max(_FEWEST, _LOGITS_BYTES // (self._size * _BYTES_EACH * max(1, prompts)))

    def score(self, logits: mx.array, at: int) -> PromptScores | None:
        """Return the scores from a chunk of logits; None where none of them is wanted.

        Args:
            logits: The logits after consecutive tokens of the prompt, of shape (tokens,
                vocabulary).
            at: The place of the first of these tokens.
        """
        skipped = max(0, self.begins - at)
        following = list(self._tokens[at + skipped + 1 : at + logits.shape[0] + 1])
        if not following:
            return None
        raw = logits[skipped : skipped + len(following)].astype(mx.float32)
        logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
        own = mx.take_along_axis(logprobs, mx.array(following)[:, None], axis=-1)
        ranks = mx.sum(logprobs > own, axis=-1)
        parts = [own, ranks]
        top = min(self._wanted.top, logprobs.shape[-1])
        if top:
            parts += _best(logprobs, top)
        chosen = self._wanted.token_ids
        if chosen:
            parts.append(logprobs[:, mx.array(chosen)])
        mx.eval(parts)
        flat: list[Any] = [part.flatten().tolist() for part in parts]
        return PromptScores(
            start=at + skipped + 1,
            token_ids=tuple(following),
            logprobs=array("f", flat[0]),
            ranks=array("i", flat[1]),
            top_ids=array("i", flat[2] if top else ()),
            top_logprobs=array("f", flat[3] if top else ()),
            chosen_ids=chosen,
            chosen_logprobs=array("f", flat[-1] if chosen else ()),
        )


def _best(logprobs: mx.array, count: int) -> list[mx.array]:
    """Return the likeliest ids and their log-probabilities, each (tokens, count), best first."""
    ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count]
    chosen = mx.take_along_axis(logprobs, ids, axis=-1)
    order = mx.argsort(-chosen, axis=-1)
    return [mx.take_along_axis(part, order, axis=-1) for part in (ids, chosen)]


def fitting(
    chunk: int, prompts: abc.Sequence[tuple[PromptScorer | None, int]], together: int
) -> int:
    """Return how many tokens of each prompt the next step may read.

    Args:
        chunk: The most tokens.
        prompts: The scorer of each prompt that waits to be read, and how much of it has been read.
        together: The most prompts that are read together.
    """
    for scorer, read in prompts:
        if scorer is not None and read + chunk > scorer.begins:
            chunk = min(chunk, scorer.most_tokens(min(together, len(prompts))))
    return chunk


# Prompts are read in lanes, by how many tokens are left to read: the most of the first and of the
# second lane; longer ones are in the last.
LANE_TOKENS = (512, 4096)
LANES = len(LANE_TOKENS) + 1
# So large that mlx-lm never ends a sequence by itself.
_NO_LIMIT = 1 << 40
# A beginning is shared where that saves reading at least this many tokens. Reading fewer takes
# about as long as copying them.
WORTH_TOKENS = 256


def lane_of(tokens: int) -> int:
    """Return the lane of a prompt that has this many tokens left to read."""
    return sum(tokens > max_tokens for max_tokens in LANE_TOKENS)


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the batch.

    Attributes:
        tokens: Its prompt, at least one token, and what another batch has answered already.
        turn_end: The number of tokens up to the end of the prompt's last turn, where that is near
            the prompt's end; 0 where it is not known.
        message_ends: Where messages of the prompt end, in order, as numbers of tokens.
        sampler: Draws its tokens.
        processors: Change its logits before that.
        owner: The owner of the caches that it uses and leaves.
        loaded: The cache of its first tokens that was read from disk.
        scorer: Scores the prompt's tokens while they are read. A cache is used only up to the first
            token whose logits the scorer needs, and nothing is taken from other sequences.
        sources: Where its draft tokens come from, the draft model included.
        draft: The draft model's part of it.
        constraint: What its tokens must meet.
        budget: Ends its reasoning.
        number: The number by which mlx-lm and the scheduler know it.
        ticket: The right to store its cache on disk.
        cache: The cache with which it joins, of its first ``cached`` tokens; once it has left the
            batch, that of the tokens that were ``held`` there.
        held: These tokens.
        from_disk: How many of these came from disk.
        cache_miss: Why no more of them came from a cache; None where nothing is missing.
        read: How many tokens of its prompt it has.
        lane: Where it is read; None while it waits and once it decodes.
        snapshots_at: After how many tokens its cache is stored, where that cannot be cut.
        reader: The sequence that reads for it what both share; None where it reads itself.
        waiting: The sequences that wait for it, each with how many tokens both share.
        is_joined: Whether it is in a lane or decodes.
        is_ahead: Whether its sources have been told a token that the batch has not returned.
        last_token: The token that the batch returned last; -1 before the first.
        is_invalid: Whether its logits are not numbers, so that its cache must not be used again.
    """

    tokens: list[int]
    turn_end: int = 0
    message_ends: abc.Sequence[int] = ()
    sampler: Callable[[mx.array], mx.array] = greedy
    processors: list[Any] = field(default_factory=list)
    owner: CacheOwner = PERSON
    loaded: LoadedPrefix | None = None
    scorer: PromptScorer | None = None
    sources: abc.Sequence[DraftSource] = ()
    draft: ModelDrafts | None = None
    constraint: TokenConstraint | None = None
    budget: BudgetProcessor | None = None

    number: int = field(default=-1, init=False)
    ticket: Ticket | None = field(default=None, init=False)
    cache: list[Any] | None = field(default=None, init=False)
    held: list[int] | None = field(default=None, init=False)
    cached: int = field(default=0, init=False)
    from_disk: int = field(default=0, init=False)
    cache_miss: CacheMiss | None = field(default=None, init=False)
    read: int = field(default=0, init=False)
    lane: int | None = field(default=None, init=False)
    snapshots_at: set[int] = field(default_factory=set, init=False)
    reader: "Sequence | None" = field(default=None, init=False)
    waiting: "dict[Sequence, int]" = field(default_factory=dict, init=False)
    is_joined: bool = field(default=False, init=False)
    is_ahead: bool = field(default=False, init=False)
    last_token: int = field(default=-1, init=False)
    is_invalid: bool = field(default=False, init=False)
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.key = key_of(self.tokens)

    def __len__(self) -> int:
        """Return how many tokens its prompt has."""
        return len(self.tokens)

    @property
    def unread(self) -> int:
        """How many tokens of its prompt it has not read yet; at least 1."""
        return max(1, len(self.tokens) - self.read)

    def tell(self, tokens: abc.Sequence[int]) -> None:
        """Tell the sources of its draft tokens the next tokens of its answer."""
        for source in self.sources:
            source.extend(tokens)


class Sequences:
    """The sequences of one batch: those that wait, those that are read, those that decode.

    Attributes:
        by_number: All of them.
        reading: Those that are in a lane, in the order in which they joined it.
        hits: How many have begun with cached tokens.
        hit_tokens: How many cached tokens these were.
    """

    def __init__(self, lanes: abc.Sequence[Any], *, is_cut_anywhere: bool) -> None:
        self.by_number: dict[int, Sequence] = {}
        self.reading: list[Sequence] = []
        self.hits = self.hit_tokens = 0
        self._lanes = lanes
        self._is_cut_anywhere = is_cut_anywhere
        self._next_number = 0
        # The numbers of those that stopped waiting, each with how many tokens it need not read.
        self._stopped_waiting: list[tuple[int, int]] = []

    def add(self, sequence: Sequence) -> None:
        """Let a sequence join a lane, or wait for another that is read.

        Its ``cached`` has grown where it took a beginning from another at once.
        """
        sequence.number = self._next_number
        self._next_number += 1
        self._place(sequence)
        self.by_number[sequence.number] = sequence

    def has_read(self, sequence: Sequence, tokens: int) -> list[tuple[int, int]]:
        """Note how many tokens a sequence has read since it joined; let those join that waited.

        Returns the progress of those that go on waiting.
        """
        sequence.read = sequence.cached + tokens
        due = [other for other, shared in sequence.waiting.items() if shared <= sequence.read]
        if due:
            cache, held = self.copy_of(sequence)
            for other in sorted(due, key=_number):
                self._take_beginning(other, cache, held)
                self._stop_waiting(other, self._join)
        return [
            (other.number, min(shared, sequence.read) - other.cached)
            for other, shared in sequence.waiting.items()
        ]

    def begins_to_decode(self, sequence: Sequence) -> None:
        """Note that a sequence has left its lane."""
        sequence.lane = None
        self.reading.remove(sequence)

    def take_shared(self) -> list[tuple[int, int]]:
        """Return the sequences that stopped waiting, each with how many tokens it need not read."""
        shared, self._stopped_waiting = self._stopped_waiting, []
        return shared

    def take_out(self, numbers: Iterable[int]) -> list[Sequence]:
        """Take sequences out, lane by lane; return them in order, with their caches."""
        gone = [self.by_number.pop(number) for number in numbers if number in self.by_number]
        by_lane: dict[int, list[Sequence]] = {}
        for sequence in gone:
            sequence.cache = None
            if (reader := sequence.reader) is not None:
                del reader.waiting[sequence]
            elif sequence.is_joined:
                by_lane.setdefault(sequence.lane or 0, []).append(sequence)
        for lane, leaving in by_lane.items():
            batch = self._lanes[lane]
            with mx.stream(batch.stream):
                numbers = [sequence.number for sequence in leaving]
                caches = batch.remove(numbers, return_prompt_caches=True)
            for sequence in leaving:
                if sequence.lane is not None:
                    self.begins_to_decode(sequence)
                cache, sequence.held = caches.get(sequence.number, (None, None))
                sequence.cache = cache and taken_out(without_head(cache))
        return gone

    def let_go(self, gone: abc.Sequence[Sequence]) -> None:
        """Let those that waited for sequences that were taken out read on from there."""
        numbers = {sequence.number for sequence in gone}
        if self._stopped_waiting:
            self._stopped_waiting = [
                stopped for stopped in self._stopped_waiting if stopped[0] not in numbers
            ]
        heirs: list[Sequence] = []
        for sequence in gone:
            waited = sorted(sequence.waiting, key=_number)
            heirs += waited
            if waited and sequence.cache and sequence.held:
                self._evaluate(sequence.cache)
                for heir in waited:
                    self._take_beginning(heir, sequence.cache, sequence.held)
        # Only now, so that none finds a beginning in a sequence that has left.
        for heir in heirs:
            self._stop_waiting(heir, self._place)

    def begin_anew(self) -> list[Sequence]:
        """Let those that waited join a batch that is empty again; return the others, dropped."""
        waiting = [sequence for sequence in self.by_number.values() if sequence.reader is not None]
        dropped = [sequence for sequence in self.by_number.values() if sequence.reader is None]
        for sequence in dropped:
            del self.by_number[sequence.number]
        self.reading.clear()
        for sequence in waiting:
            self._stop_waiting(sequence, self._place)
        return dropped

    def clear(self) -> None:
        """Forget all sequences."""
        self.by_number.clear()
        self.reading.clear()
        self._stopped_waiting.clear()

    def copy_of(self, sequence: Sequence) -> tuple[list[Any], list[int]]:
        """Return a copy of the cache of a sequence in the batch, and the tokens in it."""
        number = sequence.number
        with self._stream():
            cache, tokens = self._lanes[sequence.lane or 0].extract_cache([number])[number]
        cache = without_head(cache)
        self._evaluate(cache)
        return cache, tokens

    def _place(self, sequence: Sequence) -> None:
        """Let a sequence wait for one that shares its beginning, or join at once."""
        best = self._best(sequence) if sequence.scorer is None else None
        if best is not None:
            other, shared = best
            if other.read < shared:
                sequence.reader = other
                other.waiting[sequence] = shared
                if not self._is_cut_anywhere:
                    self._stop_at(other, shared)
                return
            cache, held = self.copy_of(other)
            # What is beyond the prompt may still change.
            self._take_beginning(sequence, cache, held, shared)
        self._join(sequence)

    def _best(self, sequence: Sequence) -> tuple[Sequence, int] | None:
        """Return of which sequence a prompt should take how many tokens; None for none.

        It waits for one only if that has read at least as much as the prompt's own cache holds,
        and is not in a lane of longer prompts, so that waiting never takes longer than reading. Of
        several, the one is chosen that saves most, both in waiting and in reading.
        """
        length, cached = len(sequence), sequence.cached
        if length - cached <= WORTH_TOKENS:
            return None
        lane = lane_of(length - cached)
        best: tuple[Sequence, int] | None = None
        max_spared = -1
        for other in self.by_number.values():
            if not other.is_joined or other.owner.name != sequence.owner.name:
                continue
            # Each reads at least its last token itself.
            shared = min(common_tokens(sequence.key, other.key), length - 1, len(other) - 1)
            if shared - cached < WORTH_TOKENS:
                continue
            if other.read >= shared:
                if not self._is_cut_anywhere:
                    continue
            elif other.read < cached or lane_of(len(other) - other.cached) > lane:
                continue
            spared = min(shared, other.read) + shared
            if spared > max_spared:
                best, max_spared = (other, shared), spared
        return best

    def _join(self, sequence: Sequence) -> None:
        """Put a prompt into the lane of those with as much to read, in the order of arrival."""
        tokens, cached = sequence.tokens, sequence.cached
        sequence.lane = lane = lane_of(len(tokens) - cached)
        model = self._lanes[lane].model
        cache = with_head(joining(sequence.cache, model), model)
        insert_sequence(
            self._lanes[lane],
            sequence.number,
            [tokens[cached:]],
            max_tokens=[_NO_LIMIT],
            caches=None if cache is None else [cache],
            all_tokens=[tokens[:cached]],
            samplers=[sequence.sampler],
            logits_processors=[sequence.processors],
        )
        for source in sequence.sources:
            if isinstance(source, HeadDrafts):
                source.begin(len(tokens) - cached)
        sequence.cache = None
        sequence.read = cached
        sequence.is_joined = True
        self.reading.append(sequence)
        snapshots_at, sequence.snapshots_at = sequence.snapshots_at, set()
        for at in snapshots_at:
            self._stop_at(sequence, at)
        self.hits += bool(cached)
        self.hit_tokens += cached

    def _stop_at(self, sequence: Sequence, at: int) -> None:
        """Store the cache of a sequence once it has read ``at`` tokens of its prompt."""
        if at > sequence.read:
            sequence.snapshots_at.add(at)
            lane = self._lanes[sequence.lane or 0]
            stop_reading_at(lane, sequence.number, at - sequence.cached)

    def _stop_waiting(self, sequence: Sequence, go_on: Callable[[Sequence], None]) -> None:
        if sequence.reader is not None:
            sequence.reader.waiting.pop(sequence, None)
            sequence.reader = None
        go_on(sequence)
        # It may have taken more from another, or wait for that now.
        self._stopped_waiting.append((sequence.number, sequence.cached))

    def _take_beginning(
        self, sequence: Sequence, cache: list[Any], tokens: list[int], most: int | None = None
    ) -> None:
        """Give a prompt what it shares with another's cache, if that is more than it has."""
        usable = len(sequence) - 1 if most is None else min(len(sequence) - 1, most)
        common = common_tokens(key_of(tokens), sequence.key[: usable * TOKEN_BYTES])
        if common > sequence.cached:
            with self._stream():
                beginning = beginning_of(cache, len(tokens), common)
            if beginning is not None:
                sequence.cache, sequence.cached = beginning, common
                sequence.cache_miss = None

    def _evaluate(self, cache: list[Any]) -> None:
        # Lazy slices would keep the arrays of the whole batch alive.
        with self._stream():
            mx.eval([part.state for part in cache])

    def _stream(self) -> Any:
        return mx.stream(self._lanes[0].stream)


def _number(sequence: Sequence) -> int:
    return sequence.number
