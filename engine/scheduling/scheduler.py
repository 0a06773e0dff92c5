"""The requests of one loaded model: they are rendered, wait for a place, run, and end.

Belongs to the engine thread. Prompts are rendered, and read from disk, on other threads.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from engine.errors import MEMORY_RETRY_S, EngineError, InvalidRequest, NotNumbers, QueueFull
from engine.inference.backend import Prompt, Step
from engine.scheduling.admission import AnswerMemory, Wanted, admit, check, wanted
from engine.scheduling.generation import (
    Generation,
    Outbox,
    cause_of,
    log_failure,
    raise_endings,
    refusal,
    settle,
    wake_up_distance_s,
)
from engine.scheduling.inbox import Ask, Embed, Inbox, Rendered, Submit
from engine.scheduling.preparation import Job, Preparation, choices_field
from engine.scheduling.sequence import ScheduledSequence, SharedScores, drop_loaded
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished
from engine.values.request import Embeddings, GenerationRequest, Limits, TraceLevel, Vector
from engine.values.tokens import TokenOrigin, TokenStats
from engine.wording import counted

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

# The texts that become vectors beside one model's answers are tokenised, and read in turn, each for
# a short while between two steps of the batch.


class EmbeddingQueue:
    """The requests for vectors of one model."""

    def __init__(
        self,
        backend: "MlxBackend",
        limits: Limits,
        preparation: Preparation,
        inbox: Inbox,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._preparation = preparation
        self._inbox = inbox
        # In order of arrival; the value of a request is None until it is tokenised.
        self._requests: dict[Embed, Iterator[Embeddings | None] | None] = {}
        self._turns: deque[Embed] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_due(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._turns)

    def holds(self, command: object) -> bool:
        """Whether a request is here."""
        return command in self._requests

    def begin(self, command: Embed) -> None:
        """Have the texts of a request tokenised on another thread, or refuse it."""
        waiting = len(self._requests)
        if waiting >= self._limits.max_waiting:
            command.reply.send(QueueFull(waiting))
            return
        self._requests[command] = None

        def send(outcome: object) -> None:
            self._inbox.send(Rendered(command, outcome))  # one that is closed has refused it

        texts = partial(self._backend.embedding_texts, command.request)
        self._preparation.aside(texts, send)

    def finish(self, command: Embed, outcome: object, max_tokens: Callable[[int], int]) -> None:
        """Let a tokenised request be read."""
        if command not in self._requests:
            return
        if command.gives_up.is_set():
            del self._requests[command]
        elif isinstance(outcome, BaseException):
            self._refuse(command, outcome)
        elif isinstance(outcome, list):
            try:
                limit = max_tokens(max(map(len, outcome)))
                parts = self._backend.embed(outcome, command.request.dimensions, limit)
            except BaseException as error:
                self._refuse(command, error)
                return
            self._requests[command] = _embeddings(outcome, parts)
            self._turns.append(command)

    def read(self) -> None:
        """Read a part of the request whose turn it is."""
        while self._turns:
            command = self._turns.popleft()
            reading = self._requests.get(command)
            if reading is None or command.gives_up.is_set():
                self._requests.pop(command, None)
                continue
            try:
                embeddings = next(reading)
            except BaseException as error:
                self._refuse(command, error)
                return
            if embeddings is None:
                self._turns.append(command)
            else:
                self._requests.pop(command, None)
                command.reply.send(embeddings)
            return

    def _refuse(self, command: Embed, why: BaseException) -> None:
        self._requests.pop(command, None)
        command.reply.send(refusal(why))

    def hand_over(self) -> list[Embed]:
        """Give up all requests, for another thread; return them in order. Any thread."""
        commands = list(self._requests)
        self._requests.clear()
        self._turns.clear()
        return commands

    def refuse_all(self, why: EngineError) -> None:
        """Refuse every request. Any thread."""
        for command in self.hand_over():
            command.reply.send(why)


def _embeddings(
    texts: Sequence[Sequence[int]], parts: Iterator[Sequence[tuple[int, Vector]]]
) -> Iterator[Embeddings | None]:
    """Read a part with each item; yield all vectors once they are complete."""
    vectors: dict[int, Vector] = {}
    for part in parts:
        vectors.update(part)
        if len(vectors) == len(texts):
            yield Embeddings(
                tuple(vectors[place] for place in range(len(texts))), tuple(map(len, texts))
            )
        else:
            yield None


_log = logging.getLogger(__name__)
# Steps between two checks of the memory that answers without a limit take.
_MEASURE_EVERY = 64
# A request counts as short if it needs at most this fraction of the memory of the first in line,
# which so many of them may overtake. It is looked for among the first ones.
_SHORT_SHARE = 2
_MAX_OVERTAKEN = 8
_MAX_COMPARED = 64
# Caches read from disk that are kept for answers that wait.
_MAX_LOADED = 4
# Characters of prompts that are rendered, or wait for that, at the same time.
_MAX_RENDERING = 64_000_000


class Scheduler:
    """The requests of one loaded model.

    Attributes:
        backend: The model.
        memory: The memory for its answers.
        running: The sequences in the batch, by their numbers.
        waiting: The sequences that wait for a place in it, in order.
        behind: The sequences that wait until another has had their prompt scored.
        embeddings: The texts that are read beside the batch.
        is_held: Whether no answer joins those that run.
    """

    def __init__(
        self,
        backend: "MlxBackend",
        limits: Limits,
        memory: AnswerMemory,
        inbox: Inbox,
        outbox: Outbox,
        preparation: Preparation,
    ) -> None:
        self.backend = backend
        self.memory = memory
        self.running = memory.running
        self.behind = SharedScores()
        self.waiting: deque[ScheduledSequence] = deque()
        self.embeddings = EmbeddingQueue(backend, limits, preparation, inbox)
        self.is_held = False
        self._limits = limits
        self._inbox = inbox
        self._outbox = outbox
        self._preparation = preparation
        self._rendering: dict[Submit, Job] = {}
        self._gathered_s = 0.0
        self._steps_unmeasured = 0
        # Since when no answer runs because memory is waited for.
        self._starved_at: float | None = None

    @property
    def has_answers(self) -> bool:
        """Whether answers run, or wait for a place."""
        return bool(self.running or self.waiting or self.behind)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is rendered, waits, runs or is read."""
        return not (self.has_answers or self._rendering or self.embeddings)

    @property
    def is_running(self) -> bool:
        """Whether answers are in the batch, or texts are read beside it."""
        return bool(self.running) or self.embeddings.is_due

    @property
    def waiting_answers(self) -> int:
        """How many answers and texts wait, those included whose prompt is being rendered."""
        texts = len(self.embeddings)
        return len(self.waiting) + len(self.behind) + self._rendering_choices + texts

    @property
    def running_bytes(self) -> int:
        """The memory that the caches of the answers in the batch take."""
        return self.memory.bytes_of(
            max((sequence.tokens for sequence in self.running.values()), default=0)
        )

    # -- before the batch ------------------------------------------------------------------

    @property
    def _rendering_choices(self) -> int:
        return sum(len(submit.generations) for submit in self._rendering)

    def is_rendering(self, request: object) -> bool:
        """Whether a request is rendered or tokenised here."""
        return request in self._rendering or self.embeddings.holds(request)

    def begin(self, submit: Submit) -> None:
        """Have a request rendered on another thread, or refuse it."""
        generations = submit.generations
        try:
            self._check(generations)
            size = sum(other.size for other in self._rendering)
            if size and size + submit.size > _MAX_RENDERING:
                raise QueueFull(self._rendering_choices)
        except Exception as error:
            settle(generations, refusal(error))
            return
        self._rendering[submit] = self._preparation.render(
            self.backend,
            [generation.request for generation in generations],
            submit.size,
            lambda outcome: self._send_rendered(Rendered(submit, outcome)),
        )

    def _send_rendered(self, rendered: Rendered) -> None:
        """Give rendered prompts to the engine thread; called on another thread."""
        submit = rendered.request
        if not self._inbox.send(rendered) and submit in self._rendering:
            assert isinstance(submit, Submit)
            settle(submit.generations, self._inbox.why_closed)

    def finish(self, rendered: Rendered) -> None:
        """Accept a request that was rendered, unless it was cancelled meanwhile.

        If files hold the beginning of its prompt, another thread reads them first.
        """
        submit, outcome = rendered.request, rendered.outcome
        if not isinstance(submit, Submit):
            self.embeddings.finish(submit, outcome, self._max_text_tokens)
            return
        if submit not in self._rendering:
            return
        if isinstance(outcome, BaseException):
            del self._rendering[submit]
            settle(submit.generations, refusal(outcome))
            return
        assert isinstance(outcome, tuple)
        is_fetched, fetched = rendered.is_fetched, partial(self._send_fetched, submit)
        if is_fetched or not self.backend.fetch(outcome, fetched):
            del self._rendering[submit]
            self._submit(submit.generations, outcome, submit.at)

    def _send_fetched(self, submit: Submit, prompts: tuple[Prompt, ...]) -> None:
        self._send_rendered(Rendered(submit, prompts, is_fetched=True))

    def cancel_submit(self, generation: Generation, why: EngineError) -> bool:
        """Drop the request of a generation, with all its choices; False if it is not rendered."""
        for submit in self._rendering:
            if generation in submit.generations:
                self._drop(submit, why)
                return True
        return False

    def refuse_all(self, why: EngineError) -> None:
        """Refuse the requests that are not in the batch or its queue yet. Any thread."""
        for submit in list(self._rendering):
            self._drop(submit, why)
        self.embeddings.refuse_all(why)

    def _drop(self, submit: Submit, why: EngineError) -> None:
        self._rendering.pop(submit).is_dropped = True
        settle(submit.generations, why)

    def ask(self, ask: Ask) -> None:
        """Answer a question on another thread."""
        if (waiting := self._preparation.asides) >= self._limits.max_waiting:
            ask.reply.send(QueueFull(waiting))
            return

        def send(outcome: object) -> None:
            ask.reply.send(refusal(outcome) if isinstance(outcome, BaseException) else outcome)

        self._preparation.aside(lambda: ask.question(self.backend), send)

    def _check(self, choices: Sequence[Generation]) -> None:
        """Check whether a request can be accepted, as far as possible before it is rendered."""
        limits = self._limits
        limit = limits.max_rows + limits.max_waiting
        requests = [generation.request for generation in choices]
        if len(choices) > limit:
            field = choices_field(requests)
            raise InvalidRequest(
                field, f"at most {counted(limit, 'answer')} can be asked for at once"
            )
        ahead = len(self.running) + len(self.waiting) + len(self.behind) + self._rendering_choices
        if ahead + len(choices) > limit:
            raise QueueFull(max(0, ahead - limits.max_rows), len(choices))
        for generation in choices:
            check(self.backend, generation)
        self.memory.check(wanted(requests))

    def _max_text_tokens(self, tokens: int) -> int:
        """Return how many tokens a text that becomes a vector may have at all."""
        limit = self.memory.possible_room.context_of(1)
        if tokens <= min(limit, self.backend.info.context_length):
            self.memory.room.check_now(Wanted([(tokens, 0)], "", ""))
        return limit

    def _submit(self, choices: Sequence[Generation], prompts: Sequence[Prompt], at: float) -> None:
        """Accept the choices of a request, or refuse all of them; tell their readers which."""
        max_tokens = self.memory.largest_room.context_of(len(choices))
        try:
            sequences = [
                admit(self.backend, generation, prompt, at, max_tokens=max_tokens)
                for generation, prompt in zip(choices, prompts, strict=True)
            ]
            self.memory.check(wanted([generation.request for generation in choices], prompts))
        except BaseException as error:
            settle(choices, refusal(error))
            return
        settle(choices, None)
        self._wait(self.behind.hold_back(sequences))
        self.fill()
        drop_loaded(self.waiting, _MAX_LOADED)

    def resume(self, sequences: Sequence[ScheduledSequence]) -> None:
        """Go on with accepted answers of another batch, which was lost."""
        self._wait(self.behind.hold_back(sequences))
        self.fill()

    # Both are called on another thread, while the engine thread may touch no answer of this model.

    def hand_over(self) -> list[ScheduledSequence]:
        """Give up all answers for another batch; return them in order of submission."""
        sequences = sorted(self._all(), key=lambda sequence: sequence.submitted_at)
        self._clear()
        return sequences

    def hand_over_requests(self) -> list[Submit | Embed]:
        """Give up the requests that are not in the queue yet; return them in order."""
        jobs, self._rendering = self._rendering, {}
        for job in jobs.values():
            job.is_dropped = True
        return [*jobs, *self.embeddings.hand_over()]

    def _clear(self) -> None:
        self.running.clear()
        self.waiting.clear()
        self.behind.clear()

    # -- the batch and its queue -----------------------------------------------------------

    def _wait(self, sequences: Sequence[ScheduledSequence]) -> None:
        """Put sequences into the queue, in the order of submission."""
        for sequence in sequences:
            place = len(self.waiting)
            while place and self.waiting[place - 1].submitted_at > sequence.submitted_at:
                place -= 1
            self.waiting.insert(place, sequence)

    def fill(self) -> None:
        """Move waiting requests into the batch while there is room, in order.

        Where memory is short, short ones go before long ones, for a number of times.
        """
        self._steps_unmeasured += 1
        if self._steps_unmeasured >= _MEASURE_EVERY:
            self._steps_unmeasured = 0
            self._end_overgrown()
        self._wait(self.behind.take_ready())
        while self.waiting and len(self.running) < self._limits.max_rows:
            if self.is_held and self.running:
                return
            sequence = self._next()
            if sequence is None:
                self._end_starved()
                return
            self._starved_at = None
            self.waiting.remove(sequence)
            try:
                form = sequence.generation.form
                joined = self.backend.join(sequence.prompt, sequence.request, form)
            except BaseException as error:
                raise_endings(error)
                log_failure("a request could not join the batch", error)
                self._finish(sequence, StopKind.ERROR, cause_of(error))
                continue
            self.running[joined.number] = sequence
            max_bytes, batch = self.memory.max_prompts_bytes, self.backend.batch
            if max_bytes is not None and batch.cache_use.size_bytes > max_bytes:
                batch.evict_prompts(max_bytes)
            self._outbox.put(sequence.generation, sequence.joined(joined, time.perf_counter()))
            if sequence.is_read_for_nothing:
                del self.running[joined.number]
                self._finish(sequence, StopKind.MAX_TOKENS)
                self._leave({joined.number: 0})

    def _next(self) -> ScheduledSequence | None:
        """Return the waiting request that joins the batch next; None while there is no room."""
        head = self.waiting[0]
        if head.overtaken < _MAX_OVERTAKEN:
            first = islice(self.waiting, _MAX_COMPARED)
            short = min(first, key=lambda sequence: sequence.reserved_tokens)
            is_short = short.reserved_tokens * _SHORT_SHARE <= head.reserved_tokens
            if is_short and not self.memory.holds(head, short):
                if not self.memory.has_room_beside(short):
                    return None
                head.overtaken += 1
                return short
        return head if self.memory.has_room_beside(head) else None

    def _end_starved(self) -> None:
        """End answers that have waited too long for memory that other models use."""
        if self.running:
            self._starved_at = None
            return
        now, max_s = time.perf_counter(), self._limits.memory_wait_s
        if self._starved_at is None:
            self._starved_at = now
        for sequence in list(self.waiting):
            if now - max(self._starved_at, sequence.submitted_at) >= max_s:
                self.waiting.remove(sequence)
                why = (
                    f"the memory for this answer was not free within {max_s:g} seconds, because "
                    "other models are answering; try again later"
                )
                self._finish(sequence, StopKind.ERROR, why, retry_after_s=MEMORY_RETRY_S)

    def _end_overgrown(self) -> None:
        """End answers that have no limit of their own, the longest first, while memory is short."""
        while len(self.running) > 1:
            sequence = self.memory.overgrown()
            if sequence is None:
                return
            _log.warning(
                "the running answers take all memory: one ends at %d tokens", sequence.tokens
            )
            generation = sequence.generation
            generation.setting = replace(generation.setting, memory_room=sequence.builder.count)
            del self.running[sequence.number]
            self._finish(sequence, StopKind.MEMORY_FULL)
            self._leave({sequence.number: 0})

    def cancel(self, generations: Collection[Generation]) -> None:
        """End answers, wherever they are."""
        self._cancel([sequence for sequence in self._all() if sequence.generation in generations])

    def cancel_all(self) -> None:
        """End every answer."""
        self._cancel(list(self._all()))

    def _cancel(self, sequences: Sequence[ScheduledSequence]) -> None:
        leaving: dict[int, int] = {}
        for sequence in sequences:
            if sequence.number >= 0:
                del self.running[sequence.number]
                leaving[sequence.number] = 0
            elif sequence in self.waiting:
                self.waiting.remove(sequence)
            self._finish(sequence, StopKind.CANCELLED)
        self._leave(leaving)

    def close_all(self, last: Finished, why: EngineError) -> None:
        """End every answer for its reader, without touching the sequences.

        Called on another thread while the engine thread may be changing the sequences. Text that
        they hold back is lost.
        """
        for sequence in [*self.running.copy().values(), *self.waiting.copy(), *self.behind]:
            generation = sequence.generation
            settle([generation], why)
            generation.push([last])
            generation.wake_soon()

    def abandon(self, kind: StopKind, error: str | None) -> None:
        """End every answer without calling the batch, which may be broken."""
        sequences = list(self._all())
        self._clear()
        for sequence in sequences:
            self._finish(sequence, kind, error)

    def decoded(self) -> Step | BaseException:
        """Step the batch once. This changes no answer, because a step may take long."""
        try:
            return self.backend.batch.step()
        except BaseException as error:
            raise_endings(error)
            return error

    def take(self, outcome: Step | BaseException) -> None:
        """Give the tokens of a step to its sequences, or end those of a step that failed."""
        if isinstance(outcome, BaseException):
            self._fail_batch(outcome)
        else:
            self._emit(outcome)

    def _emit(self, step: Step) -> None:
        """Give the tokens of one step to their sequences, and remove the sequences that ended."""
        now = time.perf_counter()
        running = self.running
        put = self._outbox.put
        stats: dict[int, TokenStats | Exception] | None = None
        checked, taken = step.checked, dict.fromkeys(step.checked, 0)
        for number, end in step.budget_ends:
            if (sequence := running.get(number)) is not None:
                sequence.budget_end = end
        # They leave together, because each departure copies the sequences that stay.
        leaving: dict[int, int] = {}
        ended: list[tuple[Generation, list[Event]]] = []
        for number in step.invalid:
            if (sequence := running.pop(number, None)) is not None:
                self._finish(sequence, StopKind.ERROR, str(NotNumbers(self.backend.info.id)))
                leaving[number] = 0
        for place, (number, token_id, _) in enumerate(step.sampled):
            sequence = running.get(number)
            if sequence is None:
                continue
            origin = TokenOrigin.SAMPLED
            if checked and number in checked:
                origin = checked[number].origins[taken[number]]
                taken[number] += 1
            try:
                if sequence.trace is TraceLevel.FULL:
                    if stats is None:
                        stats = wanted_stats(self.backend, running, step)
                    stop = sequence.sampled(token_id, now, stats.get(place), origin)
                else:
                    stop = sequence.sampled(token_id, now, origin=origin)
            except BaseException as error:
                raise_endings(error)
                # A parser that fails on one answer's text must not end the others.
                del running[number]
                log_failure("a token could not be handled", error)
                self._finish(sequence, StopKind.ERROR, cause_of(error))
                leaving[number] = step.unused(number, taken.get(number, 0))
                continue
            if stop is not None:
                del running[number]
                if number in checked:
                    sequence.checked(checked[number], taken[number])
                self.behind.delete(sequence)
                last = sequence.finish(stop, time.perf_counter())
                ended.append((sequence.generation, [*sequence.take_events(), last]))
                leaving[number] = step.unused(number, taken.get(number, 0))
            elif sequence.builder.count == 1 and sequence.builder.events:
                put(sequence.generation, sequence.take_events(), is_urgent=True)
        for number, drafts in checked.items():
            if (sequence := running.get(number)) is not None:
                sequence.checked(drafts)
        for number, why in step.failed:
            sequence = running.pop(number, None)
            if sequence is not None:
                self._finish(
                    sequence, StopKind.ERROR, _unconstrained(why), is_request_at_fault=True
                )
                leaving[number] = 0
        for number, scores in step.scored:
            sequence = running.get(number)
            if sequence is not None:
                put(sequence.generation, [scores])
                for other, told in self.behind.scored(sequence, scores):
                    put(other.generation, told)
        for number, tokens in step.shared:
            sequence = running.get(number)
            if sequence is not None:
                put(sequence.generation, sequence.shared(tokens))
        for number, tokens in step.read:
            sequence = running.get(number)
            if sequence is not None:
                put(sequence.generation, sequence.read(tokens))
        if step.read or step.shared:
            for number in [
                number for number, sequence in running.items() if sequence.is_read_for_nothing
            ]:
                sequence = running.pop(number)
                events = sequence.end(StopKind.MAX_TOKENS, time.perf_counter())
                ended.append((sequence.generation, events))
                leaving[number] = 0
        # Sequences that neither decode nor read in this step have nothing for their readers.
        readers = min(len(running), len(step.sampled) + len(step.read))
        is_due = now - self._gathered_s >= wake_up_distance_s(readers)
        if is_due or leaving or self._outbox.is_urgent:
            # Until a wake-up is due, events stay with their sequences.
            self._gathered_s = now
            for sequence in running.values():
                if sequence.builder.events:
                    put(sequence.generation, sequence.take_events(), is_urgent=True)
        if leaving:
            # Removing sequences copies the batch; the readers of the others get their tokens before
            # that.
            self._outbox.deliver(is_forced=True)
            self._leave(leaving)
            for generation, events in ended:
                put(generation, events, is_urgent=True)

    def _finish(
        self,
        sequence: ScheduledSequence,
        kind: StopKind,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Tell a reader that its answer has ended."""
        self.behind.delete(sequence)
        now = time.perf_counter()
        *events, last = sequence.end(kind, now, error, is_request_at_fault=is_request_at_fault)
        if retry_after_s is not None and isinstance(last, Finished):
            last = replace(last, retry_after_s=retry_after_s)
        self._outbox.put(sequence.generation, [*events, last], is_urgent=True)

    def _leave(self, leaving: Mapping[int, int]) -> None:
        if not leaving:
            return
        try:
            self.backend.batch.leave(leaving)
        except BaseException as error:
            raise_endings(error)
            self._fail_batch(error)

    def _fail_batch(self, error: BaseException) -> None:
        """End the sequences of a batch that failed; waiting answers continue."""
        log_failure("a step of the batch failed", error)
        going_on = self.backend.batch.reset()
        for number in [number for number in self.running if number not in going_on]:
            self._finish(self.running.pop(number), StopKind.ERROR, cause_of(error))

    def _all(self) -> Iterator[ScheduledSequence]:
        yield from self.running.values()
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
    backend: "MlxBackend", running: Mapping[int, ScheduledSequence], step: Step
) -> dict[int, TokenStats | Exception]:
    """Return the likelihoods of a step's tokens whose sequences want a full trace, by their places.

    They are computed together. If that fails, each token is computed alone, and one that fails
    again gets its exception.
    """
    wanted = [
        (place, token_id, logprobs, running[number].generation.request)
        for place, (number, token_id, logprobs) in enumerate(step.sampled)
        if number in running and running[number].trace is TraceLevel.FULL
    ]
    try:
        return _stats_of(backend, wanted)
    except Exception as error:
        if len(wanted) == 1:
            return {wanted[0][0]: error}
    stats: dict[int, TokenStats | Exception] = {}
    for token in wanted:
        try:
            stats |= _stats_of(backend, [token])
        except Exception as error:
            stats[token[0]] = error
    return stats


def _stats_of(backend: "MlxBackend", wanted: list[_Wanted]) -> dict[int, TokenStats | Exception]:
    chosen = {token_id for *_, request in wanted for token_id in request.chosen_logprobs}
    likelihoods = backend.stats(
        [(token_id, logprobs) for _, token_id, logprobs, _ in wanted],
        max(request.top_logprobs for *_, request in wanted),
        tuple(chosen),
    )
    return {
        place: _as_asked(stats, request)
        for (place, _, _, request), stats in zip(wanted, likelihoods, strict=True)
    }


def _as_asked(stats: TokenStats, request: GenerationRequest) -> TokenStats:
    """Return the likelihoods of a token without those that only other requests asked for."""
    if len(stats.top) > request.top_logprobs:
        stats = replace(stats, top=stats.top[: request.top_logprobs])
    if stats.chosen:
        told = dict(stats.chosen)
        stats = replace(stats, chosen=tuple((i, told[i]) for i in request.chosen_logprobs))
    return stats
