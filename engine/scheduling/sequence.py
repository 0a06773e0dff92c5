"""The sequences that a scheduler has accepted: their decoders, their times, their readers."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.inference.backend import Prompt
from engine.output.answer import AnswerBuilder, traced
from engine.scheduling.generation import Generation
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    BudgetEnd,
    CacheMiss,
    Event,
    Finished,
    PromptProgress,
    Speculation,
    Timing,
    Usage,
    VerifiedDrafts,
    counted,
)
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import PromptScores, TokenOrigin, TokenStats

if TYPE_CHECKING:
    from engine.inference import sequence as batch

# The tokens that an answer without ``max_tokens`` is expected to need.
_USUAL_ANSWER = 2048


class ScheduledSequence:
    """An accepted request: it waits for a place in the batch, runs there, and ends.

    Times are ``time.perf_counter()`` seconds.
    """

    __slots__ = ("_cache_miss", "_cached", "_expected_tokens", "_first_at", "_from_disk",
                 "_joined_at", "_last_at", "_read", "_speculation", "answered", "budget_end",
                 "builder", "generation", "has_scores", "number", "overtaken", "prompt",
                 "submitted_at", "trace")  # fmt: skip

    def __init__(
        self, generation: Generation, prompt: Prompt, builder: AnswerBuilder, submitted_at: float
    ) -> None:
        self.generation = generation
        self.prompt = prompt
        self.builder = builder
        self.trace = generation.request.trace
        self.budget_end: BudgetEnd | None = None
        self.has_scores = False
        self.answered: list[int] = []
        self.overtaken = 0
        self.number = -1
        self._cached = self._from_disk = 0
        self._cache_miss: CacheMiss | None = None
        self.submitted_at = submitted_at
        request, setting = generation.request, generation.setting
        room = setting.context_room if setting.memory_room is None else setting.memory_room
        answer = _USUAL_ANSWER if request.max_tokens is None else request.max_tokens
        self._expected_tokens = self.prompt_tokens + min(room, answer)
        self._read = 0
        self._joined_at: float | None = None
        self._first_at: float | None = None
        self._last_at = submitted_at
        self._speculation = Speculation()

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens."""
        return self.generation.prompt_tokens

    @property
    def tokens(self) -> int:
        """Tokens of the prompt and of the answer up to now."""
        return self.prompt_tokens + self.builder.count

    @property
    def reserved_tokens(self) -> int:
        """Tokens for which memory is reserved: the expected final value of ``tokens``."""
        return max(self._expected_tokens, self.tokens)

    @property
    def request(self) -> GenerationRequest:
        """The request that the batch carries out."""
        request = self.generation.request
        return replace(request, prompt_scoring=None) if self.has_scores else request

    @property
    def is_read_for_nothing(self) -> bool:
        """Whether nothing is to be generated, and the prompt has been read as far as needed.

        The model need not read the last token, because no token follows it.
        """
        if self.generation.request.max_tokens != 0:
            return False
        return self._cached + self._read >= self.prompt_tokens - 1

    def joined(self, joined: "batch.Sequence", now: float) -> list[Event]:
        """Note that the sequence has joined the batch; return the events for its reader."""
        self.number = joined.number
        if self.answered:  # it goes on in another batch, of which its reader need not know
            self.prompt = replace(self.prompt, loaded=None, answered=())
            return []
        self._cached = cached = joined.cached
        self._from_disk = joined.from_disk
        self._cache_miss = joined.cache_miss
        self._joined_at = now
        # Only the batch needs the cache that was read from disk.
        self.prompt = replace(self.prompt, loaded=None)
        events: list[Event] = [PromptProgress(cached, self.prompt_tokens, cached)]
        if not self.has_scores:
            events += self.first_scores()
        return events

    def first_scores(self) -> list[PromptScores]:
        """Return the event of the prompt's first token, which has no score, if it is wanted."""
        scoring = self.generation.request.prompt_scoring
        if scoring is None or scoring.start:
            return []
        return [PromptScores(0, tuple(self.prompt.tokens[:1]))]

    def leave_batch(self) -> bool:
        """Prepare for going on in another batch, after its own was lost; False where it cannot.

        Scores of the prompt that were sent already would be sent again.
        """
        scoring = self.generation.request.prompt_scoring
        if self.number >= 0 and scoring is not None and not self.has_scores:
            if not self.answered:
                return False
            self.has_scores = True
        self.number = -1
        self.prompt = replace(self.prompt, loaded=None, answered=tuple(self.answered))
        return True

    def shared(self, tokens: int) -> list[Event]:
        """Note how much of the prompt another sequence has read for it; return the events."""
        if self.answered:
            return []
        self._cached, self._read = tokens, 0
        self._cache_miss = None
        return [PromptProgress(tokens, self.prompt_tokens, tokens)]

    def read(self, tokens: int) -> list[Event]:
        """Note ``tokens`` read beyond the cached ones; return the events."""
        if self.answered:
            return []
        self._read = tokens
        return [PromptProgress(self._cached + tokens, self.prompt_tokens, self._cached)]

    def sampled(
        self,
        token_id: int,
        now: float,
        stats: TokenStats | Exception | None = None,
        origin: TokenOrigin = TokenOrigin.SAMPLED,
    ) -> StopInfo | None:
        """Take the next token; return the record if it is the last."""
        if self._first_at is None:
            self._first_at = now
        self._last_at = now
        self.generation.written_tokens += 1
        self.answered.append(token_id)
        if self.trace is TraceLevel.OFF:
            return self.builder.add(token_id)
        if isinstance(stats, Exception):
            raise stats
        end = self.budget_end
        if end and end.token_index <= self.builder.count < end.token_index + end.forced:
            origin = TokenOrigin.BUDGET
        return traced(self.builder, token_id, now - self.submitted_at, stats, origin)

    def checked(self, drafts: VerifiedDrafts, taken: int | None = None) -> None:
        """Count the draft tokens of a pass; ``taken`` as for ``counted``."""
        self._speculation = counted(self._speculation, drafts, taken)

    def finish(
        self,
        stop: StopInfo,
        now: float,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
    ) -> Finished:
        """Return the last event."""
        joined = self._joined_at if self._joined_at is not None else now
        first = self._first_at
        spans = self.builder.spans
        end = self.budget_end
        return Finished(
            stop=stop,
            usage=Usage(
                prompt_tokens=self.prompt_tokens,
                cached_tokens=self._cached,
                output_tokens=self.builder.count,
                thinking_tokens=self.builder.reader.thinking_tokens,
                disk_tokens=self._from_disk,
                cache_miss=self._cache_miss,
            ),
            timing=Timing(
                queued_s=joined - self.submitted_at,
                prefill_s=(first if first is not None else now) - joined,
                first_token_s=None if first is None else first - self.submitted_at,
                decode_s=0.0 if first is None else self._last_at - first,
                total_s=now - self.submitted_at,
            ),
            error=error,
            is_request_at_fault=is_request_at_fault,
            unfinished_tool_call=self.builder.unfinished_call,
            residue=self.builder.reader.residue,
            settled=() if spans is None else spans.settle(is_over=True),
            speculation=self._speculation,
            budget_end=end if end and self.builder.count > end.token_index else None,
            context_length=self.prompt_tokens + self.generation.setting.context_room,
        )

    def end(
        self,
        kind: StopKind,
        now: float,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
    ) -> list[Event]:
        """End the answer for a reason outside its text; return its last events,
        ``Finished`` last.
        """
        stop = self.builder.end(kind)
        last_event = self.finish(stop, now, error, is_request_at_fault=is_request_at_fault)
        return [*self.take_events(), last_event]

    def end_for_reader(self, kind: StopKind, error: str | None = None) -> None:
        """End the answer where no batch and no outbox is left to do it. Any thread."""
        self.generation.push(self.end(kind, time.perf_counter(), error))
        self.generation.wake_soon()

    def take_events(self) -> list[Event]:
        """Return the events that the pipeline has made since the last call."""
        return self.builder.take_events()


def drop_loaded(waiting: Iterable[ScheduledSequence], max_caches: int) -> None:
    """Drop caches that were read from disk for sequences that wait, because each takes memory.

    The model then reads these prompts, unless memory holds them by that time.
    """
    stored: set[int] = set()
    for sequence in waiting:
        loaded = sequence.prompt.loaded
        if loaded is None or id(loaded) in stored:
            continue
        if len(stored) < max_caches:
            stored.add(id(loaded))  # the choices of one request share it
        else:
            sequence.prompt = replace(sequence.prompt, loaded=None)


class SharedScores:
    """The sequences that wait until their prompt has been scored.

    Scoring is the expensive part of reading a prompt, so only the first of a request's choices does
    it. The others wait for the last score, get all scores at once, and then join the batch, where
    they take the prompt from the first one. Engine thread.
    """

    def __init__(self) -> None:
        # The sequences that wait for one that is scored, and the scores of that one so far.
        self._behind: dict[ScheduledSequence, list[ScheduledSequence]] = {}
        self._scores: dict[ScheduledSequence, list[PromptScores]] = {}
        self._ready: list[ScheduledSequence] = []

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._behind.values()))

    def __iter__(self) -> Iterator[ScheduledSequence]:
        """Yield the sequences. Any thread."""
        for behind in self._behind.copy().values():
            yield from behind.copy()
        yield from self._ready.copy()

    def hold_back(self, sequences: Sequence[ScheduledSequence]) -> list[ScheduledSequence]:
        """Return the sequences that join the batch now; each other one waits for one of them."""
        first: list[ScheduledSequence] = []
        for sequence in sequences:
            leader = next((other for other in first if _shares_scores(other, sequence)), None)
            if leader is None:
                first.append(sequence)
            else:
                self._behind.setdefault(leader, []).append(sequence)
        return first

    def scored(
        self, sequence: ScheduledSequence, scores: PromptScores
    ) -> Sequence[tuple[ScheduledSequence, list[PromptScores]]]:
        """Note scores of a sequence's prompt; return what others are told once it is complete."""
        if sequence not in self._behind:
            return ()
        self._scores.setdefault(sequence, []).append(scores)
        if scores.start + len(scores) < sequence.prompt_tokens:
            return ()
        behind, whole = self._behind.pop(sequence), self._scores.pop(sequence)
        self._ready += behind
        told = [(other, [*other.first_scores(), *whole]) for other in behind]
        for other in behind:
            other.has_scores = True
        return told

    def delete(self, sequence: ScheduledSequence) -> None:
        """Delete a sequence that has ended; the next one that waited for it is scored instead."""
        if not self:
            return
        if sequence in self._ready:  # an heir that has not joined yet may have others behind it
            self._ready.remove(sequence)
        if sequence in self._behind:
            self._scores.pop(sequence, None)
            heir, *others = self._behind.pop(sequence)
            self._ready.append(heir)
            if others:
                self._behind[heir] = others
            return
        for leader, behind in self._behind.items():
            if sequence in behind:
                behind.remove(sequence)
                if not behind:
                    del self._behind[leader]
                return

    def take_ready(self) -> list[ScheduledSequence]:
        """Return the sequences that may join now."""
        ready, self._ready = self._ready, []
        return ready

    def clear(self) -> None:
        """Delete all sequences."""
        self._behind.clear()
        self._scores.clear()
        self._ready.clear()


def _shares_scores(first: ScheduledSequence, second: ScheduledSequence) -> bool:
    """Whether two sequences have the same scores for their prompts, and any at all."""
    scoring = first.generation.request.prompt_scoring
    return (
        scoring is not None
        and scoring == second.generation.request.prompt_scoring
        and max(1, scoring.start) < first.prompt_tokens
        and (first.prompt is second.prompt or first.prompt.tokens == second.prompt.tokens)
    )
