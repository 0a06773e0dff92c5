"""The running batch of one model, and its prompt cache.

Knows token ids only: no text and no request. mlx-lm's ``BatchGenerator`` gets no stops and no
limits, because ``engine.output`` decides where an answer ends. Belongs to the thread that made it,
as MLX's streams do.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from engine.inference.backend import BatchLimits, Joined, PromptCacheUse, Step
from engine.inference.batching.generators import Generators
from engine.inference.batching.guessing import Guessing
from engine.inference.batching.joining import Arrival, Departure, Joining
from engine.inference.batching.reading_plan import NO_READING, ReadingPlan
from engine.inference.batching.scoring import PromptScorer, ScoredRows
from engine.inference.batching.shared_reading import WORTH_TOKENS
from engine.inference.caching.disk.chains import LoadedBeginning
from engine.inference.caching.disk.model_disk_cache import ModelDiskCache
from engine.inference.caching.prompt_keeper import PromptKeeper
from engine.inference.caching.stretches import is_cut_anywhere
from engine.inference.embedding import TextReader
from engine.inference.mlx_lm_internals import DecodingRows, decoding_rows, prompt_tokens_read
from engine.inference.sampling import greedy
from engine.speculating.lengths import CostCurve
from engine.speculating.sources import GuessSource
from engine.values.request import PERSON, CacheOwner


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
