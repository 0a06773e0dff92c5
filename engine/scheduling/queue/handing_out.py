"""Gives the tokens of each step to the answers, and their events and ends to the readers.

Belongs to the engine thread. Knows nothing of requests that wait for the batch.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine.inference.backend import Step
from engine.scheduling.generation import Generation
from engine.scheduling.outbox import Outbox, wake_up_distance_s
from engine.scheduling.queue.failures import cause_of, log_failure, raise_endings
from engine.scheduling.queue.likelihoods import wanted_stats
from engine.scheduling.queue.row import Row
from engine.scheduling.queue.shared_scores import SharedScores
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished
from engine.values.request import TraceLevel
from engine.values.tokens import TokenOrigin, TokenStats

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class Leaving(NamedTuple):
    """The rows whose answers ended in a step; the batch still holds them."""

    rows: Mapping[int, int]
    last_events: list[tuple[Generation, list[Event]]]


class HandingOut:
    """Hands the tokens of steps to the rows of a batch, and their events to the readers."""

    def __init__(self, rows: dict[int, Row], outbox: Outbox, behind: SharedScores) -> None:
        self._rows = rows
        self._outbox = outbox
        self._behind = behind
        self._gathered_s = 0.0

    def finish(
        self,
        row: Row,
        kind: StopKind,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Tell a reader that its answer has ended."""
        self._behind.gone(row)
        now = time.perf_counter()
        *events, last = row.end(kind, now, error, is_request_at_fault=is_request_at_fault)
        if retry_after_s is not None and isinstance(last, Finished):
            last = replace(last, retry_after_s=retry_after_s)
        self._outbox.put(row.generation, [*events, last], is_urgent=True)

    def hand_out(self, backend: "MlxBackend", step: Step) -> Leaving:
        """Hand the tokens of one step to their rows; return those that ended."""
        now = time.perf_counter()
        rows = self._rows
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
                self.finish(row, StopKind.ERROR, cause_of(error))
                leaving[number] = step.unused(number, taken.get(number, 0))
                continue
            if stop is not None:
                del rows[number]
                if number in checked:
                    row.checked(checked[number], taken[number])
                self._behind.gone(row)
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
                self.finish(row, StopKind.ERROR, _unconstrained(why), is_request_at_fault=True)
                leaving[number] = 0
        for number, scores in step.scored:
            row = rows.get(number)
            if row is not None:
                put(row.generation, [scores])
                for other, told in self._behind.found(row, scores):
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
        return Leaving(leaving, ended)


def _unconstrained(why: str) -> str:
    return (
        f"the answer could not be constrained: {why}; simplify the schema, regular expression or "
        "grammar"
    )
