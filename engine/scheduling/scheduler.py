"""The requests of one loaded model: they are rendered, wait for the batch, run, and end.

Belongs to the engine thread. Prompts are rendered, and caches read from disk, on other threads.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, InvalidRequest, QueueFull, not_numbers
from engine.generation import Generation
from engine.grammar.masks import is_constrained
from engine.inference.backend import Prompt, RowStep, Step
from engine.scheduling.admission import admit, check, choices_field, prepare
from engine.scheduling.call_queue import settle
from engine.scheduling.context import EngineContext
from engine.scheduling.failures import cause_of, log_failure, raise_exits, request_error
from engine.scheduling.memory_plan import MemoryPlan
from engine.scheduling.running_answer import RunningAnswer
from engine.stopping.record import StopKind
from engine.values.embedding import EmbeddingRequest
from engine.values.events import Finished
from engine.values.limits import Limits
from engine.values.ranking import RankingRequest
from engine.values.tokens import TokenOrigin, TokenStats
from engine.wording import counted

if TYPE_CHECKING:
    from engine.inference.embedding import TextsPass
    from engine.inference.mlx_backend import MlxBackend

_log = logging.getLogger(__name__)
# Between two wake-ups of the readers for text. The first text and the end of an answer do not wait;
# progress of prompts alone waits for several intervals.
_WAKE_UP_INTERVAL_S = 0.02
_Stats = TokenStats | Exception
_NO_STATS: Mapping[int, Sequence[_Stats]] = {}


class Scheduler:
    """The requests of one loaded model."""

    def __init__(self, backend: "MlxBackend", context: EngineContext) -> None:
        self.backend = backend
        self.plan = MemoryPlan(0, 0, 0)
        self.running: dict[int, RunningAnswer] = {}
        self.waiting: deque[RunningAnswer] = deque()
        self.is_admission_paused = False
        self._context = context
        self._limits: Limits = context.limits
        self._outbox = context.outbox
        # The choices of requests whose prompts are rendered, with the task that does it.
        self._rendering: dict[Future[Any], tuple[list[Generation], Future[Any]]] = {}
        # Texts that become vectors or scores: None until tokenised; the first are read next.
        self._passes: dict[Future[Any], TextsPass | None] = {}
        self._questions: set[Future[Any]] = set()
        # The prompt whose cache is read from disk: one at a time, because each takes memory.
        self._reading: Prompt | None = None
        self._put_at = 0.0
        self._unchecked_steps = 0

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.waiting or self._rendering or self._passes)

    @property
    def is_running(self) -> bool:
        return bool(self.running) or any(self._passes.values())

    @property
    def is_starved(self) -> bool:
        return not self.is_running and self._next_waiting() is not None

    @property
    def waiting_answers(self) -> int:
        return len(self.waiting) + self._rendering_choices + len(self._passes)

    @property
    def running_bytes(self) -> int:
        answers = self._bytes_of([answer.total_tokens for answer in self.running.values()])
        return answers + self._pass_bytes

    @property
    def reserved_bytes(self) -> int:
        answers = self._bytes_of([answer.reserved_tokens for answer in self.running.values()])
        return answers + self._pass_bytes

    @property
    def _pass_bytes(self) -> int:
        size = self.backend.info.answer_cache
        return sum(one.needed_bytes(size) for one in self._passes.values() if one is not None)

    def _bytes_of(self, lengths: Collection[int]) -> int:
        return self.backend.info.caches_bytes(lengths)

    @property
    def _rendering_choices(self) -> int:
        return sum(len(generations) for generations, _ in self._rendering.values())

    def submit(
        self,
        generations: list[Generation],
        submitted_at: float,
        future: "Future[Any]",
    ) -> None:
        """Render the choices of a request on another thread; accept all of them, or none."""
        requests = [generation.request for generation in generations]
        limit = self._limits.max_rows + self._limits.max_waiting
        ahead = len(self.running) + len(self.waiting) + self._rendering_choices
        try:
            if len(generations) > limit:
                raise InvalidRequest(
                    choices_field(requests),
                    f"at most {counted(limit, 'answer')} at once are possible",
                )
            if ahead + len(generations) > limit:
                raise QueueFull(max(0, ahead - self.backend.batch.max_rows), len(generations))
            for generation in generations:
                check(self.backend, generation.request)
            self.plan.check(self.backend.info, requests)
        except Exception as error:
            settle(future, request_error(error))
            return
        context = self._context
        is_slow = any(is_constrained(one) or one.all_pictures for one in requests)
        pool = context.slow_prompt_pool if is_slow else context.prompt_pool
        task = pool.submit(prepare, self.backend, generations)
        self._rendering[future] = generations, task
        calls = context.queue.calls
        task.add_done_callback(lambda _: calls.put(lambda _: self._admit(future, submitted_at)))

    def _admit(self, future: "Future[Any]", at: float) -> None:
        """Let the choices of a request wait for the batch, once its prompts are rendered."""
        if future not in self._rendering:
            return
        generations, rendering = self._rendering.pop(future)
        model = self.backend.info
        max_tokens = self.plan.max_tokens(model, len(generations))
        try:
            prompts: tuple[Prompt, ...] = rendering.result()
            answers = [
                admit(self.backend, generation, prompt, at, max_tokens=max_tokens)
                for generation, prompt in zip(generations, prompts, strict=True)
            ]
            requests = [generation.request for generation in generations]
            self.plan.check(model, requests, prompts)
        except BaseException as error:
            settle(future, request_error(error))
            return
        if not future.set_running_or_notify_cancel():
            return
        self._outbox.running.update(generations)
        future.set_result(None)
        for answer in answers:  # in the order of arrival
            index = len(self.waiting)
            while index and self.waiting[index - 1].submitted_at > at:
                index -= 1
            self.waiting.insert(index, answer)
        self.fill()

    def refuse_pending(self, why: EngineError) -> None:
        for future, (_, task) in self._rendering.items():
            task.cancel()
            settle(future, why)
        self._rendering.clear()
        for future in self._passes:
            settle(future, why)
        self._passes.clear()

    def drop_cancelled(self) -> None:
        for future in [one for one in self._rendering if one.cancelled()]:
            self._rendering.pop(future)[1].cancel()
        for future in [one for one in self._passes if one.cancelled()]:
            del self._passes[future]

    def ask(self, question: "Callable[[MlxBackend], object]", future: "Future[Any]") -> None:
        if len(self._questions) >= self._limits.max_waiting:
            settle(future, QueueFull(len(self._questions)))
            return

        def on_done(task: "Future[object]") -> None:
            self._questions.discard(future)
            if not task.cancelled():
                error = task.exception()
                settle(future, task.result() if error is None else request_error(error))

        self._questions.add(future)
        task = self._context.question_pool.submit(question, self.backend)
        task.add_done_callback(on_done)

    def read_texts(self, request: EmbeddingRequest | RankingRequest, future: "Future[Any]") -> None:
        """Turn texts into vectors or scores: tokenised on another thread, read between steps."""
        if (waiting := len(self._passes)) >= self._limits.max_waiting:
            settle(future, QueueFull(waiting))
            return
        self._passes[future] = None
        task = self._context.question_pool.submit(self.backend.text_tokens, request)
        task.add_done_callback(
            lambda done: self._context.queue.calls.put(
                lambda _: self._begin_pass(request, future, done)
            )
        )

    def _begin_pass(
        self,
        request: EmbeddingRequest | RankingRequest,
        future: "Future[Any]",
        task: "Future[list[list[int]]]",
    ) -> None:
        if future not in self._passes:
            return
        try:
            texts, model = task.result(), self.backend.info
            limit = model.answer_cache.tokens_in(self.plan.total, model.context_length)
            reading = self.backend.texts_pass(request, texts, limit)
            self.plan.check_available(reading.needed_bytes(model.answer_cache))
        except BaseException as error:
            del self._passes[future]
            settle(future, request_error(error))
            return
        self._passes[future] = reading

    def _read_pass(self) -> None:
        for future, reading in self._passes.items():
            if reading is None:
                continue
            outcome: object = None
            try:
                self.backend.batch.read_texts(reading)
                if reading.is_done:
                    outcome = reading.outcome()
            except BaseException as error:
                outcome = request_error(error)
            del self._passes[future]
            if outcome is None:
                self._passes[future] = reading  # the last now, so that each has its turn
            else:
                settle(future, outcome)
            return

    def fill(self, *, is_forced: bool = False) -> None:
        """Move waiting requests into the batch, in order, while there is memory."""
        self._unchecked_steps += 1
        # Steps between two checks of the memory that answers without a limit take.
        if self._unchecked_steps >= 64:
            self._unchecked_steps = 0
            self._end_unbounded()
        while len(self.running) < self.backend.batch.max_rows:
            answer = self._next_waiting()
            if answer is None or (self.is_admission_paused and self.running):
                return
            lengths = [one.reserved_tokens for one in self.running.values()]
            lengths.append(answer.reserved_tokens)
            if not self.plan.fits(self.backend.info, lengths, self._pass_bytes):
                if self.running or not is_forced:
                    return
                is_forced = False
            if answer.is_on_disk:
                self._read_cache(answer)
                continue
            self.waiting.remove(answer)
            try:
                self.backend.join(answer.sequence, answer.generation, answer.prompt)
            except BaseException as error:
                raise_exits(error)
                log_failure("a request could not join the batch", error)
                self._finish(answer, StopKind.ERROR, cause_of(error))
            else:
                self._begin(answer)

    def _next_waiting(self) -> RunningAnswer | None:
        """Return the answer that joins next; others overtake those whose cache is on disk."""
        is_free = self._reading is None
        return next((one for one in self.waiting if is_free or not one.is_on_disk), None)

    def _read_cache(self, answer: RunningAnswer) -> None:
        """Read the cache of an answer's prompt from disk, on the disk's thread, before it joins."""
        self._reading = prompt = answer.prompt
        reading = self.backend.batch.prompt_cache.read([(answer.sequence.owner, prompt.keys)])
        calls = self._context.queue.calls
        reading.add_done_callback(lambda _: calls.put(lambda _: self._join_read(prompt)))

    def _join_read(self, prompt: Prompt) -> None:
        self._reading = None
        answers = [one for one in self.waiting if one.prompt is prompt]
        for answer in answers:
            answer.is_on_disk = False
        if not answers:  # they were cancelled: no prompt that joins evicts the rest
            self.backend.batch.evict_prompts()
        self.fill()

    def _begin(self, answer: RunningAnswer) -> None:
        self.running[answer.sequence.number] = answer
        batch, plan = self.backend.batch, self.plan
        if plan.prompts_bytes is not None:
            max_bytes = plan.prompts_bytes + max(0, plan.free - self.reserved_bytes)
            if batch.cached_bytes > max_bytes:
                batch.evict_prompts(max_bytes)
        self._outbox.put(answer.generation, answer.start(time.perf_counter()))
        if answer.is_prefill_only:
            del self.running[answer.sequence.number]
            self._finish(answer, StopKind.MAX_TOKENS)
            self._remove({answer: 0})

    def _end_unbounded(self) -> None:
        """End answers that have no limit of their own, the longest first, while memory is short."""
        while len(self.running) > 1:
            running = self.running.values()
            lengths = [answer.total_tokens for answer in running]
            unbounded = [one for one in running if one.generation.request.max_tokens is None]
            if not unbounded or self.plan.fits(self.backend.info, lengths, self._pass_bytes):
                return
            longest = max(unbounded, key=lambda answer: answer.total_tokens)
            _log.warning(
                "the running answers take all memory: one ends at %d tokens", longest.total_tokens
            )
            del self.running[longest.sequence.number]
            self._finish(longest, StopKind.MEMORY_FULL)
            self._remove({longest: 0})

    def cancel(self, generations: Collection[Generation] | None = None) -> None:
        """End answers, wherever they are; None ends all."""
        removed: dict[RunningAnswer, int] = {}
        for answer in [*self.running.values(), *self.waiting]:
            if generations is not None and answer.generation not in generations:
                continue
            if answer.sequence.number >= 0:
                del self.running[answer.sequence.number]
                removed[answer] = 0
            else:
                self.waiting.remove(answer)
                if answer.prompt.is_on_disk:
                    self.backend.batch.evict_prompts()
            self._finish(answer, StopKind.CANCELLED)
        self._remove(removed)

    def end_answers(self, kind: StopKind, error: str | None) -> None:
        answers = [*self.running.values(), *self.waiting]
        self.running.clear()
        self.waiting.clear()
        for answer in answers:
            self._finish(answer, kind, error)

    def step(self) -> None:
        if self.running:
            try:
                step = self.backend.batch.step()
            except BaseException as error:
                raise_exits(error)
                self._fail_batch(error)
            else:
                self._emit(step)
        self._read_pass()

    def _emit(self, step: Step) -> None:
        """Give the answers their parts of a step, and finish the ended ones."""
        now = time.perf_counter()
        running, stats = self.running, _NO_STATS
        # They are removed together, because each removal copies the batch; each with how many
        # tokens of the step follow its end.
        removed: dict[RunningAnswer, int] = {}
        ends: list[tuple[RunningAnswer, Finished]] = []
        for number, row in step.items():
            if (answer := running.get(number)) is None:
                continue
            if answer.is_fully_traced and row.sampled and not stats:
                stats = token_stats(self.backend, running, step)
            end, unused = self._take(answer, row, stats.get(number, ()), now)
            if end is not None:
                del running[number]
                removed[answer] = unused
                ends.append((answer, end))
        is_decoding = any(row.sampled for row in step.values())
        interval_s = _WAKE_UP_INTERVAL_S if is_decoding else 5 * _WAKE_UP_INTERVAL_S
        if removed or self._outbox.is_urgent or now - self._put_at >= interval_s:
            self._put_at = now
            for answer in running.values():
                if answer.builder.text.events:
                    self._outbox.put(answer.generation, answer.builder.take_events())
        if removed:
            # Removing answers copies the batch; the other readers get their tokens before that.
            self._outbox.deliver()
            self._remove(removed)
            for answer, end in ends:
                self._outbox.finish(answer.generation, answer.builder.take_events(), end)

    def _take(
        self, answer: RunningAnswer, row: RowStep, stats: Sequence[_Stats], now: float
    ) -> tuple[Finished | None, int]:
        """Give an answer its part of a step; return its end, and how many tokens follow that."""
        if row.is_invalid:
            return answer.end(StopKind.ERROR, str(not_numbers(self.backend.info.id))), 0
        if row.budget_end is not None:
            answer.budget_end = row.budget_end
        unused = len(row.sampled)
        for index, (token_id, _) in enumerate(row.sampled):
            unused -= 1
            origin = TokenOrigin.SAMPLED if row.drafts is None else row.drafts.origins[index]
            try:
                stop = answer.take(token_id, now, stats[index] if stats else None, origin)
            except BaseException as error:
                raise_exits(error)
                # A parser that fails on one answer's text must not end the others.
                log_failure("a token could not be handled", error)
                return answer.end(StopKind.ERROR, cause_of(error)), unused
            if stop is not None:
                if row.drafts is not None:
                    answer.count_drafts(row.drafts, index + 1)
                return answer.finish(stop, time.perf_counter()), unused
        if row.drafts is not None:
            answer.count_drafts(row.drafts)
        if row.failure:
            return answer.end(StopKind.ERROR, row.failure, is_request_at_fault=True), 0
        events = answer.builder.text.events
        if row.scores is not None:
            events.append(row.scores)
        if row.read is not None:
            answer.note_progress(row.read)
            if answer.is_prefill_only:
                return answer.end(StopKind.MAX_TOKENS), 0
        if events and row.sampled and answer.builder.reader.count == len(row.sampled):
            self._outbox.put(answer.generation, answer.builder.take_events(), is_urgent=True)
        return None, 0

    def _finish(self, answer: RunningAnswer, kind: StopKind, error: str | None = None) -> None:
        end = answer.end(kind, error)
        self._outbox.finish(answer.generation, answer.builder.take_events(), end)

    def _remove(self, removed: Mapping[RunningAnswer, int]) -> None:
        """Take answers out of the batch, each with how many tokens of the step follow its end."""
        if not removed:
            return
        batch = self.backend.batch
        try:
            batch.remove({answer.sequence.number: after for answer, after in removed.items()})
            for answer in removed:
                sequence, thinking = answer.sequence, answer.builder.reader.thinking_tokens
                if (held := sequence.held) and not sequence.is_invalid:
                    recent, rendered = batch.prompt_cache.recent, answer.prompt.rendered
                    recent.add(sequence.owner.name, held, rendered, thinking)
        except BaseException as error:
            raise_exits(error)
            self._fail_batch(error)

    def _fail_batch(self, error: BaseException) -> None:
        log_failure("a step of the batch failed", error)
        remaining = self.backend.batch.reset()
        for number in [number for number in self.running if number not in remaining]:
            self._finish(self.running.pop(number), StopKind.ERROR, cause_of(error))


def token_stats(
    backend: "MlxBackend", running: Mapping[int, RunningAnswer], step: Step
) -> dict[int, Sequence[_Stats]]:
    """Return the likelihoods of the tokens of fully traced answers, or their exception."""
    rows = [
        (number, row.sampled, running[number].generation.request.top_logprobs)
        for number, row in step.items()
        if number in running and running[number].is_fully_traced
    ]
    try:
        sampled = [token for _, tokens, _ in rows for token in tokens]
        found = iter(backend.stats(sampled, max(count for *_, count in rows)))
    except Exception as error:
        return {number: [error] * len(tokens) for number, tokens, _ in rows}
    return {
        number: [replace(stats, top=stats.top[:count]) for stats in islice(found, len(tokens))]
        for number, tokens, count in rows
    }
