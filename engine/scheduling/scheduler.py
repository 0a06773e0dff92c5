"""The running batch and the queue behind it: which answers join, get tokens, and leave.

Belongs to the engine thread and touches the model only through
``engine.inference.mlx_backend.MlxBackend``.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from engine.errors import MEMORY_RETRY_S, EngineError, InvalidRequest, QueueFull
from engine.inference.backend import Prompt, Step
from engine.library.memory import Memory, memory
from engine.library.models import ModelInfo
from engine.scheduling.admission import (
    AnswerMemory,
    Wanted,
    admit,
    check,
    reserved_bytes,
    rows_bytes,
    wanted,
)
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import (
    Outbox,
    cause_of,
    log_failure,
    raise_endings,
    refusal,
    settle,
    wake_up_distance_s,
)
from engine.scheduling.prompt_rendering import choices_field
from engine.scheduling.sequence import Row, SharedScores, drop_loaded
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import TokenOrigin, TokenStats
from engine.wording import counted

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

_log = logging.getLogger(__name__)
# Steps between two checks of the memory that answers without a limit take.
_MEASURE_EVERY = 64
# A request counts as short if it needs at most this fraction of the memory of the first in line,
# which so many of them may overtake. It is looked for among the first ones.
_SHORT_SHARE = 2
_MOST_OVERTAKEN = 8
_MOST_COMPARED = 64
# Most caches read from disk that are kept for answers that wait.
_MOST_LOADED = 4


class Scheduler:
    """The running and waiting answers of one model."""

    def __init__(
        self,
        limits: Limits,
        outbox: Outbox,
        machine: Callable[[], Memory] = memory,
        largest: Callable[[], Memory] | None = None,
        most: Callable[[], int] | None = None,
        make_room: Callable[[], bool | None] | None = None,
    ) -> None:
        self._limits = limits
        self._outbox = outbox
        self._memory = AnswerMemory(limits, machine, largest, most, make_room)
        self.rows: dict[int, Row] = {}
        self.behind = SharedScores()
        self._gathered_s = 0.0
        self.waiting: deque[Row] = deque()
        self._steps_unmeasured = 0
        # Since when no answer runs because memory is waited for.
        self._starved_at: float | None = None
        self.is_held = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not (self.rows or self.waiting or self.behind)

    def check(self, backend: "MlxBackend", choices: Sequence[Generation], preparing: int) -> None:
        """Check whether a request can be accepted, as far as possible before it is rendered."""
        limits = self._limits
        most = limits.max_rows + limits.max_waiting
        if len(choices) > most:
            field = choices_field([one.request for one in choices])
            raise InvalidRequest(
                field, f"at most {counted(most, 'answer')} can be asked for at once"
            )
        ahead = len(self.rows) + len(self.waiting) + len(self.behind) + preparing
        if ahead + len(choices) > most:
            raise QueueFull(max(0, ahead - limits.max_rows), len(choices))
        for generation in choices:
            check(backend, generation)
        self._memory.check(backend.info, self.rows, wanted([one.request for one in choices]))

    def measure_again(self) -> None:
        """Measure the memory for answers again with the next request: other models came or left."""
        self._memory.measure_again()

    def reserved_bytes(self, model: ModelInfo) -> int:
        """Return the memory that the caches of the answers in the batch will take."""
        return reserved_bytes(model, self.rows)

    def rows_bytes(self, model: ModelInfo) -> int:
        """Return the memory that the caches of the answers in the batch take."""
        return rows_bytes(model, self.rows)

    def most_text_tokens(self, backend: "MlxBackend", tokens: int) -> int:
        """Return how many tokens a text that becomes a vector may have at all."""
        model = backend.info
        most = self._memory.possible_room(model, self.rows).context_of(1)
        if tokens <= min(most, model.context_length):
            self._memory.room(model, self.rows).check_now(Wanted([(tokens, 0)], "", ""))
        return most

    def submit(
        self,
        backend: "MlxBackend",
        choices: Sequence[Generation],
        prompts: Sequence[Prompt],
        at: float,
    ) -> None:
        """Accept the choices of a request, or refuse all of them; tell their readers which."""
        largest = self._memory.largest_room(backend.info, self.rows)
        most_tokens = largest.context_of(len(choices))
        try:
            rows = [
                admit(backend, generation, prompt, at, most_tokens=most_tokens)
                for generation, prompt in zip(choices, prompts, strict=True)
            ]
            need = wanted([one.request for one in choices], prompts)
            self._memory.check(backend.info, self.rows, need)
        except BaseException as error:
            settle(choices, refusal(error))
            return
        settle(choices, None)
        self._wait(self.behind.hold_back(rows))
        self.fill(backend)
        drop_loaded(self.waiting, _MOST_LOADED)

    def resume(self, backend: "MlxBackend", rows: Sequence[Row]) -> None:
        """Go on with accepted answers of another batch, which was lost."""
        self._wait(self.behind.hold_back(rows))
        self.fill(backend)

    def hand_over(self) -> list[Row]:
        """Give up all answers, running and waiting, for another batch; in order of submission.

        Called on another thread, while the engine thread may touch no answer of this model.
        """
        rows = sorted(self._all(), key=lambda row: row.submitted_at)
        self.rows.clear()
        self.waiting.clear()
        self.behind.clear()
        return rows

    def _wait(self, rows: Sequence[Row]) -> None:
        """Put rows into the queue, in the order of submission."""
        for row in rows:
            place = len(self.waiting)
            while place and self.waiting[place - 1].submitted_at > row.submitted_at:
                place -= 1
            self.waiting.insert(place, row)

    def fill(self, backend: "MlxBackend") -> None:
        """Move waiting requests into the batch while there is room, in order.

        Where memory is short, short ones go before long ones, for a number of times.
        """
        self._steps_unmeasured += 1
        if self._steps_unmeasured >= _MEASURE_EVERY:
            self._steps_unmeasured = 0
            self._end_overgrown(backend)
        self._wait(self.behind.take_ready())
        while self.waiting and len(self.rows) < self._limits.max_rows:
            if self.is_held and self.rows:
                return
            row = self._next(backend.info)
            if row is None:
                self._end_starved()
                return
            self._starved_at = None
            self.waiting.remove(row)
            try:
                joined = backend.join(row.prompt, row.request, row.generation.form)
            except BaseException as error:
                raise_endings(error)
                log_failure("a request could not join the batch", error)
                self._finish(row, StopKind.ERROR, cause_of(error))
                continue
            self.rows[joined.number] = row
            max_bytes = self._memory.max_prompts_bytes(backend.info, self.rows)
            if max_bytes is not None and backend.batch.cache_use.size_bytes > max_bytes:
                backend.batch.evict_prompts(max_bytes)
            self._outbox.put(row.generation, row.joined(joined, time.perf_counter()))
            if row.is_read_for_nothing:
                del self.rows[joined.number]
                self._finish(row, StopKind.MAX_TOKENS)
                self._leave(backend, {joined.number: 0})

    def _next(self, model: ModelInfo) -> Row | None:
        """Return the waiting request that joins the batch next; None while there is no room."""
        head = self.waiting[0]
        if head.overtaken < _MOST_OVERTAKEN:
            first = islice(self.waiting, _MOST_COMPARED)
            short = min(first, key=lambda row: row.reserved_tokens)
            is_short = short.reserved_tokens * _SHORT_SHARE <= head.reserved_tokens
            if is_short and not self._memory.holds(model, self.rows, head, short):
                if not self._memory.has_room_beside(model, self.rows, short):
                    return None
                head.overtaken += 1
                return short
        return head if self._memory.has_room_beside(model, self.rows, head) else None

    def _end_starved(self) -> None:
        """End answers that have waited too long for memory that other models use."""
        if self.rows:
            self._starved_at = None
            return
        now, most_s = time.perf_counter(), self._limits.memory_wait_s
        if self._starved_at is None:
            self._starved_at = now
        for row in list(self.waiting):
            if now - max(self._starved_at, row.submitted_at) >= most_s:
                self.waiting.remove(row)
                why = (
                    f"the memory for this answer was not free within {most_s:g} seconds, because "
                    "other models are answering; try again later"
                )
                self._finish(row, StopKind.ERROR, why, retry_after_s=MEMORY_RETRY_S)

    def _end_overgrown(self, backend: "MlxBackend") -> None:
        """End answers that have no limit of their own, the longest first, while memory is short."""
        while len(self.rows) > 1:
            row = self._memory.overgrown(backend.info, self.rows)
            if row is None:
                return
            _log.warning("the running answers take all memory: one ends at %d tokens", row.tokens)
            generation = row.generation
            generation.setting = replace(generation.setting, memory_room=row.builder.count)
            del self.rows[row.number]
            self._finish(row, StopKind.MEMORY_FULL)
            self._leave(backend, {row.number: 0})

    def cancel(self, backend: "MlxBackend", generations: Collection[Generation]) -> None:
        """End answers, wherever they are."""
        self._cancel(backend, [row for row in self._all() if row.generation in generations])

    def cancel_all(self, backend: "MlxBackend") -> None:
        """End every answer."""
        self._cancel(backend, list(self._all()))

    def _cancel(self, backend: "MlxBackend", rows: Sequence[Row]) -> None:
        leaving: dict[int, int] = {}
        for row in rows:
            if row.number >= 0:
                del self.rows[row.number]
                leaving[row.number] = 0
            elif row in self.waiting:
                self.waiting.remove(row)
            self._finish(row, StopKind.CANCELLED)
        self._leave(backend, leaving)

    def close_all(self, last: Finished, why: EngineError) -> None:
        """End every answer for its reader, without touching the rows.

        Called on another thread while the engine thread may be changing the rows. Text that a row
        holds back is lost.
        """
        for row in [*self.rows.copy().values(), *self.waiting.copy(), *self.behind]:
            generation = row.generation
            settle([generation], why)
            generation.push([last])
            generation.wake_soon()

    def abandon(self, kind: StopKind, error: str | None) -> None:
        """End every answer without calling the batch, which may be broken."""
        rows = list(self._all())
        self.rows.clear()
        self.waiting.clear()
        self.behind.clear()
        for row in rows:
            self._finish(row, kind, error)

    def decoded(self, backend: "MlxBackend") -> Step | BaseException:
        """Step the batch once. This changes no answer, because a step may take long."""
        try:
            return backend.batch.step()
        except BaseException as error:
            raise_endings(error)
            return error

    def take(self, backend: "MlxBackend", outcome: Step | BaseException) -> None:
        """Hand the tokens of a step to its rows, or end the rows of a step that failed."""
        if isinstance(outcome, BaseException):
            self._fail_batch(backend, outcome)
        else:
            self._emit(backend, outcome)

    def _emit(self, backend: "MlxBackend", step: Step) -> None:
        """Give the tokens of one step to their rows, and remove the rows that ended."""
        now = time.perf_counter()
        rows = self.rows
        put = self._outbox.put
        stats: dict[int, TokenStats | Exception] | None = None
        checked, taken = step.checked, dict.fromkeys(step.checked, 0)
        for number, end in step.budget_ends:
            if (row := rows.get(number)) is not None:
                row.budget_end = end
        # They leave together, because each departure copies the rows that stay.
        leaving: dict[int, int] = {}
        ended: list[tuple[Generation, list[Event]]] = []
        for place, (number, token_id, _) in enumerate(step.sampled):
            row = rows.get(number)
            if row is None:
                continue
            origin = TokenOrigin.SAMPLED
            if checked and number in checked:
                origin = checked[number].origins[taken[number]]
                taken[number] += 1
            try:
                if row.trace is TraceLevel.FULL:
                    if stats is None:
                        stats = wanted_stats(backend, rows, step)
                    stop = row.sampled(token_id, now, stats.get(place), origin)
                else:
                    stop = row.sampled(token_id, now, origin=origin)
            except BaseException as error:
                raise_endings(error)
                # A parser that fails on one answer's text must not end the others.
                del rows[number]
                log_failure("a token could not be handled", error)
                self._finish(row, StopKind.ERROR, cause_of(error))
                leaving[number] = step.unused(number, taken.get(number, 0))
                continue
            if stop is not None:
                del rows[number]
                if number in checked:
                    row.checked(checked[number], taken[number])
                self.behind.gone(row)
                last = row.finish(stop, time.perf_counter())
                ended.append((row.generation, [*row.take_events(), last]))
                leaving[number] = step.unused(number, taken.get(number, 0))
            elif row.builder.count == 1 and row.builder.events:
                put(row.generation, row.take_events(), is_urgent=True)
        for number, found in checked.items():
            if (row := rows.get(number)) is not None:
                row.checked(found)
        for number, why in step.failed:
            row = rows.pop(number, None)
            if row is not None:
                self._finish(row, StopKind.ERROR, _unconstrained(why), is_request_at_fault=True)
                leaving[number] = 0
        for number, scores in step.scored:
            row = rows.get(number)
            if row is not None:
                put(row.generation, [scores])
                for other, told in self.behind.found(row, scores):
                    put(other.generation, told)
        for number, tokens in step.shared:
            row = rows.get(number)
            if row is not None:
                put(row.generation, row.shared(tokens))
        for number, tokens in step.read:
            row = rows.get(number)
            if row is not None:
                put(row.generation, row.read(tokens))
        if step.read or step.shared:
            for number in [number for number, row in rows.items() if row.is_read_for_nothing]:
                row = rows.pop(number)
                ended.append((row.generation, row.end(StopKind.MAX_TOKENS, time.perf_counter())))
                leaving[number] = 0
        # Rows that neither decode nor read in this step have nothing for their readers.
        readers = min(len(rows), len(step.sampled) + len(step.read))
        is_due = now - self._gathered_s >= wake_up_distance_s(readers)
        if is_due or leaving or self._outbox.is_urgent:
            # Until a wake-up is due, events stay with their rows.
            self._gathered_s = now
            for row in rows.values():
                if row.builder.events:
                    put(row.generation, row.take_events(), is_urgent=True)
        if leaving:
            # Removing rows copies the batch; the readers of the others get their tokens before
            # that.
            self._outbox.deliver(is_forced=True)
            self._leave(backend, leaving)
            for generation, events in ended:
                put(generation, events, is_urgent=True)

    def _finish(
        self,
        row: Row,
        kind: StopKind,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Tell a reader that its answer has ended."""
        self.behind.gone(row)
        now = time.perf_counter()
        *events, last = row.end(kind, now, error, is_request_at_fault=is_request_at_fault)
        if retry_after_s is not None and isinstance(last, Finished):
            last = replace(last, retry_after_s=retry_after_s)
        self._outbox.put(row.generation, [*events, last], is_urgent=True)

    def _leave(self, backend: "MlxBackend", leaving: Mapping[int, int]) -> None:
        if not leaving:
            return
        try:
            backend.batch.leave(leaving)
        except BaseException as error:
            raise_endings(error)
            self._fail_batch(backend, error)

    def _fail_batch(self, backend: "MlxBackend", error: BaseException) -> None:
        """End the rows of a batch that failed; waiting answers continue."""
        log_failure("a step of the batch failed", error)
        going_on = backend.batch.reset()
        for number in [number for number in self.rows if number not in going_on]:
            self._finish(self.rows.pop(number), StopKind.ERROR, cause_of(error))

    def _all(self) -> Iterator[Row]:
        yield from self.rows.values()
        yield from self.waiting
        yield from self.behind


def _unconstrained(why: str) -> str:
    return (
        f"the answer could not be constrained: {why}; simplify the schema, regular expression or "
        "grammar"
    )


_Wanted = tuple[int, int, Any, GenerationRequest]
"""A token's place in the step, its id, its log-probabilities, and its request."""


def wanted_stats(
    backend: "MlxBackend", rows: Mapping[int, Row], step: Step
) -> dict[int, TokenStats | Exception]:
    """Return the likelihoods of a step's tokens whose rows want a full trace, by their places.

    They are computed together. If that fails, each token is computed alone, and one that fails
    again gets its exception.
    """
    wanted = [
        (place, token_id, logprobs, rows[number].generation.request)
        for place, (number, token_id, logprobs) in enumerate(step.sampled)
        if number in rows and rows[number].trace is TraceLevel.FULL
    ]
    try:
        return _stats_of(backend, wanted)
    except Exception as error:
        if len(wanted) == 1:
            return {wanted[0][0]: error}
    found: dict[int, TokenStats | Exception] = {}
    for one in wanted:
        try:
            found |= _stats_of(backend, [one])
        except Exception as error:
            found[one[0]] = error
    return found


def _stats_of(backend: "MlxBackend", wanted: list[_Wanted]) -> dict[int, TokenStats | Exception]:
    chosen = {token_id for *_, request in wanted for token_id in request.chosen_logprobs}
    found = backend.stats(
        [(token_id, logprobs) for _, token_id, logprobs, _ in wanted],
        max(request.top_logprobs for *_, request in wanted),
        tuple(chosen),
    )
    return {
        place: _as_asked(stats, request)
        for (place, _, _, request), stats in zip(wanted, found, strict=True)
    }


def _as_asked(stats: TokenStats, request: GenerationRequest) -> TokenStats:
    """Return the likelihoods of a token without those that only other requests asked for."""
    if len(stats.top) > request.top_logprobs:
        stats = replace(stats, top=stats.top[: request.top_logprobs])
    if stats.chosen:
        told = dict(stats.chosen)
        stats = replace(stats, chosen=tuple((i, told[i]) for i in request.chosen_logprobs))
    return stats
