"""The running batch of one model."""

import contextlib
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import BatchKVCache, CacheList, make_prompt_cache, trim_prompt_cache
from mlx_lm.utils import maybe_set_recommended_wired_limit

from engine.inference.backend import BatchLimits, Joined, PromptCacheUse, Step
from engine.inference.cache.disk import ModelDiskCache
from engine.inference.cache.index import LoadedBeginning, common_tokens, key_of
from engine.inference.cache.memory import PromptKeeper
from engine.inference.cache.segments import beginning_of, is_cut_anywhere
from engine.inference.drafts import Guessing
from engine.inference.embedding import TextReader
from engine.inference.mlx_lm_internals import (
    DecodingRows,
    decode_together,
    decoding_rows,
    insert_row,
    prompt_tokens_read,
    read_as,
    set_reading,
    stop_reading_at,
    straighten_windows,
)
from engine.inference.prefill import (
    LANES,
    WORTH_TOKENS,
    CopyingPace,
    ReadingPace,
    ReadingTurns,
    SharedReading,
    lane_of,
)
from engine.inference.sampling import greedy
from engine.inference.scoring import PromptScorer, ScoredRows, ScoringPrompts
from engine.inference.speculation.cost import CostCurve
from engine.inference.speculation.draft_model import DraftGuesses
from engine.inference.speculation.sources import GuessSource
from engine.values.request import PERSON, CacheOwner

# Caches of running rows that use no attention mask where it would hide nothing. Engine thread.
#
# mlx-lm pads rows of different lengths on the left, and hides the padding by a mask. It makes the
# mask at every step, and every layer applies it, even for a single row or for rows of the same
# length, which have no padding. Without the mask the model computes the same numbers faster.


class UnmaskedCache(BatchKVCache):  # type: ignore[misc]  # mlx-lm has no types
    """A ``BatchKVCache`` that needs no mask for one token of rows without padding."""

    # Whether no row has padding, and the paddings for which that was checked.
    _is_even = False
    _known_for: Any = None

    def make_mask(self, N: int, return_array: bool = False, **options: Any) -> Any:  # noqa: N803
        """Return the mask for the next ``N`` tokens of each row; None where it hides nothing."""
        is_plain = N == 1 and not return_array and options.get("window_size") is None
        if is_plain and self._needs_no_mask():
            return None
        return super().make_mask(N, return_array, **options)

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        """Add keys and values of shape (rows, heads, tokens, size); return all of them."""
        found = super().update_and_fetch(keys, values)
        if keys.shape[2] == 1 and self._needs_no_mask():
            # The offset is known without computing: mlx-lm's lazy sum is never evaluated.
            self.offset = mx.array([self.size()] * keys.shape[0])
        return found

    def _needs_no_mask(self) -> bool:
        if self._known_for is not self.left_padding:
            self._known_for = self.left_padding
            self._is_even = not any(self.left_padding.tolist())
        return self._is_even

    # These change the paddings in place.

    def filter(self, batch_indices: Any) -> None:
        """Keep the given rows."""
        super().filter(batch_indices)
        self._known_for = None

    def finalize(self) -> None:
        """Move the rows to the right by the paddings that were prepared."""
        super().finalize()
        self._known_for = None


def unmask(cache: Sequence[Any]) -> None:
    """Let the parts of a running batch's cache skip needless masks from now on."""
    for part in cache:
        if type(part) is BatchKVCache:
            part.__class__ = UnmaskedCache
        elif isinstance(part, CacheList):
            unmask(part.caches)


# Puts prompts into the lanes of a batch, each with the longest cached beginning.
#
# A prompt that shares a long beginning with a row of its owner takes it from that row: at once,
# or as soon as the row has read it. A cache that cannot be cut anywhere is kept at the end of a
# turn and where prompts diverged, so that later prompts can continue from there. Belongs to the
# thread of the batch.

# So large that the batch never ends a row by itself.
_NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Arrival:
    """A prompt that is not in a lane yet."""

    owner: str
    tokens: list[int]
    drawing: dict[str, Any]
    cache: list[Any] | None = None
    cached: int = 0
    snapshots_at: Sequence[int] = ()
    row: int = -1
    reads_alone: bool = False


@dataclass(slots=True)
class Departure:
    """A row that was taken out of the batch."""

    row: int
    cache: list[Any] | None = None
    tokens: list[int] | None = None


class Joining:
    """The prompts on their way into a batch."""

    def __init__(
        self,
        lanes: Sequence[Any],
        lane_of: dict[int, int],
        *,
        is_cut_anywhere: bool,
    ) -> None:
        self.hits = self.hit_tokens = 0
        self._lanes = lanes
        self._lane_of = lane_of
        self._is_cut_anywhere = is_cut_anywhere
        self._sharing = SharedReading(is_cut_anywhere=is_cut_anywhere)
        self._next_row = 0
        # Rows that wait until another row has read what they share with it.
        self._waiting: dict[int, Arrival] = {}
        self._stopped_waiting: list[tuple[int, int]] = []
        # After how many tokens the cache of a row is to be kept, where that cannot be cut.
        self._snapshots_at: dict[int, set[int]] = {}

    def add(self, arrival: Arrival) -> int:
        """Let a prompt join the batch, or wait for another that is read; return its row's number.

        Its ``cached`` has grown where it took a beginning from a row at once.
        """
        arrival.row = self._next_row
        self._next_row += 1
        self._place(arrival)
        return arrival.row

    def has_read(self, row: int, tokens: int) -> tuple[list[tuple[int, int]], bool]:
        """Note how many tokens a row has read since it joined; let those join that waited
        for it.
        """
        tokens += self._sharing.begun_at(row)
        due = self._sharing.has_read(row, tokens)
        if due:
            cache, held = self.copy_of(row)
            for other in due:
                self._take_beginning(self._waiting[other], cache, held)
                self._stop_waiting(other, self._join)
        waiting = ((self._waiting[other], most) for other, most in self._sharing.waiting(row))
        progress = [(one.row, min(most, tokens) - one.cached) for one, most in waiting]
        return progress, tokens in self._snapshots_at.get(row, ())

    def unread_by(self, row: int) -> int:
        """Return how many tokens of its prompt a row in the batch has not read yet; at least 1."""
        return self._sharing.unread_by(row)

    def depth_of(self, row: int) -> int:
        """Return how many tokens of its prompt a row in the batch has."""
        return self._sharing.read_by(row)

    def length_of(self, row: int) -> int:
        """Return how many tokens the prompt of a row in the batch has."""
        return self._sharing.length_of(row)

    def take_shared(self) -> list[tuple[int, int]]:
        """Return the rows that stopped waiting, each with how many tokens it need not read."""
        found, self._stopped_waiting = self._stopped_waiting, []
        return found

    def stop(self, row: int) -> bool:
        """Drop a row that waits; return whether there is such a row."""
        return self._waiting.pop(row, None) is not None

    def forget(self, gone: Sequence[Departure]) -> None:
        """Forget rows that were taken out; those that waited for them read on from there."""
        rows = {one.row for one in gone}
        if self._stopped_waiting:
            self._stopped_waiting = [one for one in self._stopped_waiting if one[0] not in rows]
        heirs: list[int] = []
        for one in gone:
            self._snapshots_at.pop(one.row, None)
            waited = [row for row in self._sharing.forget(one.row) if row not in rows]
            heirs += waited
            if waited and one.cache and one.tokens:
                self._evaluate(one.cache)
                for row in waited:
                    self._take_beginning(self._waiting[row], one.cache, one.tokens)
        # Only now, so that none finds a beginning in a row that has left.
        for row in heirs:
            self._stop_waiting(row, self._place)

    def begin_anew(self) -> Sequence[int]:
        """Let the rows that waited join a batch that is empty again; return their numbers."""
        self._snapshots_at.clear()
        self._sharing.clear()
        rows = sorted(self._waiting)
        for row in rows:
            self._stop_waiting(row, self._place)
        return rows

    def clear(self) -> None:
        """Forget all rows."""
        self._waiting.clear()
        self.begin_anew()

    def copy_of(self, row: int) -> tuple[list[Any], list[int]]:
        """Return a copy of the cache of a row in the batch, and the tokens in it."""
        with self._stream():
            cache, tokens = self._lanes[self._lane_of.get(row, 0)].extract_cache([row])[row]
        self._evaluate(cache)
        return cache, tokens

    def _place(self, arrival: Arrival) -> None:
        """Let a prompt wait for a row that shares its beginning, or join at once."""
        shared = None
        if not arrival.reads_alone:
            shared = self._sharing.best(arrival.owner, arrival.tokens, arrival.cached)
        if shared is not None and not shared.is_read:
            self._waiting[arrival.row] = arrival
            self._sharing.wait(arrival.row, shared)
            if not self._is_cut_anywhere:
                self._snapshot(shared.row, shared.tokens)
            return
        if shared is not None:
            cache, held = self.copy_of(shared.row)
            # What is beyond the prompt may still change.
            self._take_beginning(arrival, cache, held, shared.tokens)
        self._join(arrival)

    def _join(self, arrival: Arrival) -> None:
        """Put a prompt into the lane of those with as much to read, in the order of arrival."""
        row, tokens, cached = arrival.row, arrival.tokens, arrival.cached
        lane = lane_of(len(tokens) - cached)
        insert_row(
            self._lanes[lane],
            row,
            [tokens[cached:]],
            max_tokens=[_NO_LIMIT],
            caches=None if arrival.cache is None else [arrival.cache],
            all_tokens=[tokens[:cached]],
            **arrival.drawing,
        )
        self._lane_of[row] = lane
        self._sharing.joined(row, arrival.owner, tokens, cached)
        for at in arrival.snapshots_at:
            self._snapshot(row, at)
        self.hits += bool(cached)
        self.hit_tokens += cached

    def _snapshot(self, row: int, at: int) -> None:
        """Keep the cache of a row once the row has read ``at`` tokens of its prompt."""
        if at > self._sharing.read_by(row):
            self._snapshots_at.setdefault(row, set()).add(at)
            begun = self._sharing.begun_at(row)
            stop_reading_at(self._lanes[self._lane_of[row]], row, at - begun)

    def _stop_waiting(self, row: int, go_on: Callable[[Arrival], None]) -> None:
        arrival = self._waiting.pop(row)
        go_on(arrival)
        # It may have taken more from another row, or wait for that now.
        self._stopped_waiting.append((row, arrival.cached))

    def _take_beginning(
        self, arrival: Arrival, cache: list[Any], tokens: list[int], most: int | None = None
    ) -> None:
        """Give a prompt what it shares with the cache of a row, if that is more than it has."""
        common = common_tokens(key_of(tokens), key_of(arrival.tokens[:-1][:most]))
        if common > arrival.cached:
            with self._stream():
                found = beginning_of(cache, len(tokens), common)
            if found is not None:
                arrival.cache, arrival.cached = found, common

    def _evaluate(self, cache: list[Any]) -> None:
        # Lazy slices would keep the arrays of the whole batch alive.
        with self._stream():
            mx.eval([part.state for part in cache])

    def _stream(self) -> Any:
        return mx.stream(self._lanes[0].stream)


# Plans what the next step of a batch reads: which prompts, how many together, how much of each.
#
# Combines the limits that come from the measured pace of reading, the turns of the lanes, the
# time of copying, and the prompts that are scored.

# Prompts that arrive together are read a few at a time, so that the first readers see their first
# word sooner.
READ_TOGETHER = 4
# Rows that begin to answer also decode their first token in that step. Beside running answers, as
# many may begin as can decode in this time.
_BEGINNING_S = 0.03
# Prompts with few tokens left are read together, up to this many tokens in all: prompts that shared
# a beginning then begin to answer at the same time.
_FEW_TOKENS = 512


class Reading(NamedTuple):
    """What one step reads."""

    chunk: int = 0
    lane: int = 0
    together: int = 0
    prompts: int = 0
    depth: int = 0


NO_READING = Reading()
"""A step that only decodes."""


class ReadingPlan:
    """Plans the reading of one batch, step by step."""

    def __init__(
        self, limits: BatchLimits, lane_of: dict[int, int], joining: Joining, scored: ScoredRows
    ) -> None:
        self.pace = ReadingPace(limits.prefill_chunk)
        self._copying = CopyingPace()
        self._turns = ReadingTurns()
        self._rows = limits.rows
        self._lane_of = lane_of
        self._joining = joining
        self._scored = scored

    def next(self, decoding: int) -> Reading:
        """Return what the next step reads; at least one prompt must be waiting."""
        waiting = self._waiting()
        lane = self._turns.due(waiting)
        together = self._together(lane, decoding)
        prompts = min(together, waiting[lane])
        depth = self._depth(lane, prompts)
        chunk = self.pace.chunk(decoding, prompts, lane, depth)
        if chunk and self._scored:
            depths = {row: self._joining.depth_of(row) for row in self._rows_in(lane)}
            chunk = self._scored.chunk(chunk, depths, together)
        if chunk:
            self._turns.note(lane, waiting)
        return Reading(chunk, lane, together, prompts, depth)

    def read(self, reading: Reading, took_s: float, tokens: int, decoding: int) -> None:
        """Note a step that read."""
        self.pace.read(
            took_s,
            tokens,
            is_whole=tokens >= reading.chunk,
            decoding=decoding,
            reading=reading.prompts,
            lane=reading.lane,
            depth=reading.depth,
        )

    def joined(self, tokens: int, took_s: float) -> None:
        """Note a step in which prompts joined the rows that decode."""
        self._copying.joined(tokens, took_s - self.pace.decode_s)

    def _together(self, lane: int, decoding: int) -> int:
        """Return how many prompts of a lane are read together: more, where each is short."""
        rows = self._rows_in(lane)
        left = max(map(self._joining.unread_by, rows), default=1)
        together = max(READ_TOGETHER, _FEW_TOKENS // left)
        if decoding:
            longest = max(map(self._joining.length_of, rows), default=1)
            together = min(together, self._copying.together(longest), self._beginning(decoding))
        return min(self._rows, together)

    def _beginning(self, decoding: int) -> int:
        """Return how many rows may begin to answer in one step beside ``decoding`` running ones."""
        if not self.pace.decode_s:
            return READ_TOGETHER
        return max(READ_TOGETHER, int(_BEGINNING_S * decoding / self.pace.decode_s))

    def _depth(self, lane: int, prompts: int) -> int:
        """Return how many tokens have been read of the longest prompt that a lane reads now."""
        rows = sorted(self._rows_in(lane))[:prompts]
        return max(map(self._joining.depth_of, rows), default=0)

    def _rows_in(self, lane: int) -> list[int]:
        return [row for row, other in self._lane_of.items() if other == lane]

    def _waiting(self) -> list[int]:
        """Return how many prompts of each lane are being read, or wait for that."""
        waiting = [0] * LANES
        for lane in self._lane_of.values():
            waiting[lane] += 1
        return waiting


# The mlx-lm generators of one batch: they read prompts of different lengths and decode together.
#
# Knows the number and the lane of each row, but nothing of guesses or kept caches. Belongs to the
# thread of the batch.

# The generators of all models in memory. They share one limit of wired memory: macOS may page out
# weights beyond it, which makes them slow.
_open: "weakref.WeakSet[Generators]" = weakref.WeakSet()


class Generators:
    """One generator for each lane; all of them decode in the batch of the first."""

    def __init__(
        self, model: Any, limits: BatchLimits, scored: ScoredRows, *, is_cut_anywhere: bool
    ) -> None:
        self.model = model
        self._chunk = limits.prefill_chunk
        self._rows = limits.rows
        self._scored = scored
        self._is_cut_anywhere = is_cut_anywhere
        self.lane_of: dict[int, int] = {}
        self.lanes = self._made()
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
            read_as(lane, ScoringPrompts, scored=self._scored)
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
            unmask(DecodingRows(batch).cache)
            if not self._is_cut_anywhere:
                with self.stream():
                    straighten_windows(batch)
        if self.lane_of:
            for part in sampled:
                self.lane_of.pop(part.uid, None)
        return read, sampled

    def take_out(self, rows: Iterable[int]) -> dict[int, tuple[list[Any], list[int]]]:
        """Take rows out, lane by lane; return the cache and the tokens of each."""
        leaving: dict[int, list[int]] = {}
        for row in rows:
            leaving.setdefault(self.lane_of.pop(row, 0), []).append(row)
        found: dict[int, tuple[list[Any], list[int]]] = {}
        for lane, gone in leaving.items():
            batch = self.lanes[lane]
            with mx.stream(batch.stream):
                found |= batch.remove(gone, return_prompt_caches=True)
        return found

    def renew(self) -> None:
        """Drop all rows, after a step that failed."""
        self._close_lanes()
        self.lane_of.clear()
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


# The running batch of one model, and its prompt cache.
#
# Knows token ids only: no text and no request. mlx-lm's ``BatchGenerator`` gets no stops and no
# limits, because ``engine.output`` decides where an answer ends. Belongs to the thread that made
# it, as MLX's streams do.


class RunningBatch:
    """The rows that a model decodes together.

    Args:
        model: The model; called as mlx-lm calls it.
        limits: The limits of the batch.
        new_curve: Makes an empty record of the costs of passes, for one number of rows.

    Attributes:
        cache_use: The state of the prompt cache; another object whenever it changes.
        can_guess: Whether it checks guesses; if not, it ignores all sources.
    """

    def __init__(
        self, model: Any, limits: BatchLimits, new_curve: Callable[[], CostCurve] = CostCurve
    ) -> None:
        self.cache_use = PromptCacheUse()
        self.can_guess = limits.guesses
        # Tokens of the prompts that joined the running rows in the last step.
        self._joined_tokens = 0
        self._stepped_at_s = 0.0
        self._most_read = limits.prefill_chunk
        self._is_cut_anywhere = is_cut_anywhere(make_prompt_cache(model))
        self._scored = ScoredRows()
        self._generators = generators = Generators(
            model, limits, self._scored, is_cut_anywhere=self._is_cut_anywhere
        )
        self._lanes, self._lane_of = generators.lanes, generators.lane_of
        self._kept = PromptKeeper(limits.cache_bytes, generators.stream)
        self._guessing = Guessing(model, new_curve)
        self._joining = Joining(self._lanes, self._lane_of, is_cut_anywhere=self._is_cut_anywhere)
        self._plan = ReadingPlan(limits, self._lane_of, self._joining, self._scored)

    def insert(
        self,
        tokens: list[int],
        *,
        turn_end: int = 0,
        sampler: Callable[[mx.array], mx.array] | None = None,
        processors: list[Any] | None = None,
        sources: Sequence[GuessSource] = (),
        loaded: LoadedBeginning | None = None,
        owner: CacheOwner = PERSON,
        scorer: PromptScorer | None = None,
    ) -> Joined:
        """Add a row.

        A row that shares a long beginning with another one may wait until the other has read it;
        see ``take_shared``.

        Args:
            tokens: The prompt, at least one token.
            turn_end: The number of tokens up to the end of the prompt's last turn, where that is
                near the prompt's end; 0 where it is not known.
            sampler: Draws its tokens; None takes the most likely.
            processors: Change its logits before that.
            sources: Guess its tokens, which the model then checks several at once.
            loaded: The cache of its first tokens that was read from disk.
            owner: The owner of the caches that the row uses and leaves.
            scorer: Scores the prompt's tokens while they are read. A cache is used only up to the
                first token whose logits the scorer needs.
        """
        drawing = {"samplers": [sampler or greedy], "logits_processors": [processors or []]}
        with self._generators.stream():
            if scorer is None:
                cache, cached, from_disk = self._kept.fetch(owner, tokens, loaded)
            else:
                unscored = tokens[: scorer.begins + 1]
                cache, cached = self._kept.memory.fetch(owner.name, unscored)
                from_disk = 0
        reads_alone = scorer is not None
        arrival = Arrival(owner.name, tokens, drawing, cache, cached, reads_alone=reads_alone)
        if not self._is_cut_anywhere:
            # The next turn seldom repeats an answer token by token, so the end of the turn is kept.
            # Where this prompt diverges from an earlier one, later prompts may diverge, too.
            branch = self._kept.memory.common(owner.name, tokens)
            is_long = branch - cached >= WORTH_TOKENS
            arrival.snapshots_at = [turn_end or len(tokens) - 1, *[branch] * is_long]
        row = self._joining.add(arrival)
        if scorer is not None:
            self._scored.join(row, scorer)
        if self.can_guess:
            self._guessing.join(row, sources)
        self._kept.own(row, owner)
        self._note_use()
        return Joined(row, arrival.cached, from_disk)

    @property
    def disk(self) -> ModelDiskCache | None:
        """Where caches are kept on disk; None for nowhere."""
        return self._kept.disk

    @disk.setter
    def disk(self, disk: ModelDiskCache | None) -> None:
        self._kept.disk = disk

    def take_shared(self) -> list[tuple[int, int]]:
        """Return the rows that stopped waiting, each with how many tokens it need not read."""
        return self._joining.take_shared()

    def held(self, owner: str, tokens: list[int]) -> int:
        """Return how many first tokens of an owner's prompt the cache in memory holds."""
        return self._kept.memory.usable(owner, tokens)

    def step(self) -> Step:
        """Decode the next tokens of each running row and read as much of the prompts as is fair."""
        decoding = decoding_rows(self._lanes[0])
        reading, was_read = NO_READING, 0
        if self._lane_of:
            reading = self._plan.next(decoding)
            if reading.chunk:
                was_read = prompt_tokens_read(self._lanes[reading.lane])
        is_beside = bool(self._lane_of)
        # Measured from step to step: the device decodes while the last step's tokens are handled.
        begin_s = self._stepped_at_s if decoding else time.perf_counter()
        found = self._guessed() if decoding and not reading.chunk else None
        is_plain = found is None
        if found is None:
            found = self._step(reading.chunk, reading.lane, reading.together)
        self._stepped_at_s = time.perf_counter()
        took_s = self._stepped_at_s - begin_s
        if is_plain:
            self._guessing.decoded(found.sampled, None if is_beside else took_s)
        if decoding and self._joined_tokens:
            self._plan.joined(self._joined_tokens, took_s)
        if reading.chunk:
            tokens = prompt_tokens_read(self._lanes[reading.lane]) - was_read
            self._plan.read(reading, took_s, tokens, decoding)
        else:
            given = 1.0 if is_plain else len(found.sampled) / decoding
            self._plan.pace.decoded(took_s, decoding, tokens=given, is_beside=is_beside)
        return found

    def resume(self) -> None:
        """Note that other work ran since the last step; this batch does not count its time."""
        self._stepped_at_s = time.perf_counter()

    def read_beside(self, read: Callable[[float], object]) -> None:
        """Let something else be read, unless the streams are behind their pace.

        Args:
            read: Reads for about the given number of seconds.
        """
        decoding = decoding_rows(self._lanes[0])
        most_s = self._plan.pace.free_s(decoding)
        if not most_s:
            return
        begin_s = time.perf_counter()
        read(most_s)
        took_s = time.perf_counter() - begin_s
        self._plan.pace.waited(took_s, decoding)
        # The time of the next step does not include it.
        self._stepped_at_s += took_s

    def text_reader(self, texts: Sequence[Sequence[int]], **wanted: Any) -> TextReader:
        """Return what reads texts that become vectors, through ``read_texts``.

        Args:
            texts: The tokens of each text.
            wanted: The other arguments of ``TextReader``.

        Raises:
            InvalidRequest: The model shows no hidden states.
        """
        most = self._most_read
        with self._generators.stream():
            return TextReader(self._generators.model, texts, most_tokens=most, **wanted)

    def read_texts(self, reader: TextReader) -> None:
        """Read a part of some texts, unless the streams are behind their pace."""

        def read(most_s: float) -> None:
            with self._generators.stream():
                reader.read(most_s)

        self.read_beside(read)

    def _guessed(self) -> Step | None:
        """Check guesses, if that pays; None where the plain loop is due."""
        rows = DecodingRows(self._lanes[0])
        if not self._guessing.is_due(rows.numbers):
            return None
        with self._generators.stream():
            return self._guessing.step(rows)

    def _step(self, chunk: int, lane: int, together: int) -> Step:
        """Decode, and read prompts if ``chunk`` is not 0.

        The result depends on the arguments and the rows only, never on the clock.
        """
        self._joined_tokens = 0
        read, sampled = self._generators.next(chunk, lane, together)
        return Step(
            self._progress(read),
            [(part.uid, part.token, part.logprobs) for part in sampled],
            scored=self._scored.take() if self._scored else [],
        )

    def _progress(self, read: Sequence[Any]) -> list[tuple[int, int]]:
        """Return how much the rows have read, and the progress of those that wait for them."""
        progress: list[tuple[int, int]] = []
        for part in read:
            waiting, is_kept = self._joining.has_read(part.uid, part.progress[0])
            progress += [(part.uid, part.progress[0]), *waiting]
            if part.end_of_prompt:
                self._joined_tokens += self._joining.length_of(part.uid)
            if is_kept:
                self._kept.keep(*self._joining.copy_of(part.uid), part.uid)
        if read:
            self._note_use()
        return progress

    def leave(self, rows: Mapping[int, int]) -> None:
        """Take rows out at any time, and keep their caches for the next turns.

        Args:
            rows: The rows, each with how many of the last step's tokens its reader did not get.
        """
        gone = self._taken_out(rows)
        for one in gone:
            if (unused := rows[one.row]) and one.cache and one.tokens:
                trim_prompt_cache(one.cache, unused)
                one.tokens = one.tokens[:-unused]
        self._let_go(gone)

    def _let_go(self, gone: Sequence[Departure]) -> None:
        """Keep the caches of removed rows; rows that waited for them continue to read."""
        self._joining.forget(gone)
        for one in gone:
            self._kept.keep(one.cache, one.tokens, one.row, has_left=True)
        self._note_use()

    def _taken_out(self, rows: Iterable[int]) -> list[Departure]:
        """Take rows out, lane by lane; return them in order."""
        gone = {row: Departure(row) for row in rows}
        for row in gone:
            self._guessing.leave(row)
            self._scored.leave(row)
        inside = [row for row in gone if not self._joining.stop(row)]
        for row, (cache, tokens) in self._generators.take_out(inside).items():
            gone[row].cache, gone[row].tokens = cache, tokens
        return list(gone.values())

    def _note_use(self) -> None:
        """Make a new ``cache_use`` if anything has changed."""
        use = PromptCacheUse(
            entries=len(self._kept.memory),
            size_bytes=self._kept.memory.size_bytes,
            hits=self._joining.hits,
            hit_tokens=self._joining.hit_tokens,
            shares=self._kept.memory.shares,
        )
        if use != self.cache_use:
            self.cache_use = use

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes."""
        dropped = self._kept.memory.shares.get(owner, (0, 0))
        self._kept.memory.clear(owner)
        self._note_use()
        mx.clear_cache()
        return dropped

    def evict_prompts(self, max_bytes: int) -> None:
        """Evict the least recently used cached prompts until the rest takes at most so much."""
        self._kept.memory.shrink_to(len(self._kept.memory), max_bytes)
        self._note_use()

    def reset(self) -> Sequence[int]:
        """Drop the batch itself after a step that failed, and the rows that were in it.

        Returns:
            The rows that continue: those that waited for one of the others.
        """
        self._scored.clear()
        self._generators.renew()
        rows = self._joining.begin_anew()
        self._guessing.keep_only(rows)
        self._kept.keep_only(rows)
        return rows

    def close(self) -> None:
        """Free the rows, the kept prompts and the model."""
        self._generators.close()
        self._joining.clear()
        self._kept.memory.clear()
        del self._guessing
        mx.clear_cache()


class DraftedRows:
    """The guesses of a draft model for the rows of one batch."""

    def __init__(self, batch: RunningBatch) -> None:
        self._batch = batch
        # By row: its guesses, and how many tokens of its prompt were cached.
        self._rows: dict[int, tuple[DraftGuesses, int]] = {}

    def join(self, joined: Joined, draft: DraftGuesses) -> None:
        """Note the guesses for a row that has just joined."""
        self._rows[joined.row] = draft, joined.cached

    def follow(self, step: Step) -> None:
        """Note how far prompts have been read, and let the draft model read on."""
        rows = self._rows
        if not rows:
            return
        for row, cached in step.shared:
            if row in rows:
                rows[row] = rows[row][0], cached
        for row, tokens in step.read:
            if row in rows:
                draft, cached = rows[row]
                draft.follow(cached + tokens)
        # It reads the prompt in which it is furthest behind.
        behind = max((draft for draft, _ in rows.values()), key=lambda one: one.unread)
        if behind.unread:
            self._batch.read_beside(behind.read_on)

    def leave(self, rows: Iterable[int]) -> None:
        """Give back the caches of rows that were taken out."""
        for row in rows:
            if row in self._rows:
                self._rows.pop(row)[0].leave()

    def keep_only(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, after a step that failed."""
        for row in self._rows.keys() - set(rows):
            self._rows.pop(row)[0].forget()
