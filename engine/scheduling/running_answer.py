"""An accepted request while its answer waits, runs and ends. No MLX.

Times are ``time.perf_counter()`` seconds. Engine thread.
"""

import time
from dataclasses import replace

from engine.generation import Generation
from engine.inference.backend import Prompt
from engine.inference.sequence import Sequence
from engine.output.answer import AnswerBuilder, feed_traced
from engine.output.tool_calls.planned import planned_call
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    BudgetEnd,
    EndDetails,
    Event,
    Finished,
    PromptProgress,
    Speculation,
    Timing,
    Usage,
    VerifiedDrafts,
    add_pass,
)
from engine.values.no_effect import plain_name
from engine.values.request import LimitSource, TraceLevel
from engine.values.tokens import PromptScores, TokenOrigin, TokenStats

# The tokens that an answer without ``max_tokens`` is expected to need.
_USUAL_ANSWER = 2048


class RunningAnswer:
    """One answer: its reader's handle, its text so far, and its sequence in the batch."""

    def __init__(
        self, generation: Generation, prompt: Prompt, builder: AnswerBuilder, submitted_at: float
    ) -> None:
        request, setting = generation.request, generation.setting
        self.generation, self.prompt, self.builder = generation, prompt, builder
        self.sequence = Sequence(prompt.tokens, owner=request.cache_owner)
        # Whether files have a beginning of its prompt that is not read from there yet.
        self.is_on_disk = prompt.is_on_disk
        self.submitted_at = self._last_at = submitted_at
        self.is_fully_traced = request.trace is TraceLevel.FULL
        # Where its thinking was ended.
        self.budget_end: BudgetEnd | None = None
        self._is_traced = request.trace is not TraceLevel.OFF
        limit = setting.context_budget if setting.memory_budget is None else setting.memory_budget
        answer = _USUAL_ANSWER if request.max_tokens is None else request.max_tokens
        self._expected_tokens = len(prompt.tokens) + min(limit, answer)
        # Tokens read beyond the cached ones, as the last event states them.
        self._progress = 0
        self._joined_at: float | None = None
        self._first_at: float | None = None
        self._speculation = Speculation()

    @property
    def total_tokens(self) -> int:
        return len(self.sequence) + self.builder.reader.count

    @property
    def reserved_tokens(self) -> int:
        """Tokens for which memory is reserved: the expected final ``total_tokens``."""
        return max(self._expected_tokens, self.total_tokens)

    @property
    def is_prefill_only(self) -> bool:
        """Whether nothing is to be generated, and the prompt has been read as far as needed.

        The model need not read the last token, because no token follows it.
        """
        if self.generation.request.max_tokens != 0:
            return False
        return self.sequence.cached + self._progress >= len(self.sequence) - 1

    def start(self, now: float) -> list[Event]:
        self._joined_at = now
        cached, tokens = self.sequence.cached, self.sequence.tokens
        events: list[Event] = [PromptProgress(cached, len(tokens), cached)]
        scoring = self.generation.request.prompt_scoring
        if scoring is not None and not scoring.start:
            events.append(PromptScores(0, tuple(tokens[:1])))  # the first token has no score
        return events

    def note_progress(self, tokens: int) -> None:
        """Add an event of ``tokens`` read beyond the cached ones; it is not worth a wake-up."""
        self._progress = tokens
        cached = self.sequence.cached
        self.builder.text.events.append(PromptProgress(cached + tokens, len(self.sequence), cached))

    def take(
        self,
        token_id: int,
        now: float,
        stats: TokenStats | Exception | None = None,
        origin: TokenOrigin = TokenOrigin.SAMPLED,
    ) -> StopInfo | None:
        """Take the next token; return the record if it is the last."""
        if self._first_at is None:
            self._first_at = now
            self.generation.first_token_s = now - self.submitted_at
        self._last_at = now
        self.generation.written_tokens += 1
        if not self._is_traced:
            return self.builder.add(token_id)
        if isinstance(stats, Exception):
            raise stats
        end = self.budget_end
        index, fork = self.builder.reader.count, self.generation.request.fork
        if fork is not None and index < len(fork.tokens):  # the logits name no other token there
            origin = TokenOrigin.SAMPLED if index < fork.token_index else TokenOrigin.CHOSEN
            stats = fork.stats[index] if index < len(fork.stats) else None
        if end and end.token_index <= index < end.token_index + end.forced:
            origin = TokenOrigin.BUDGET
        return feed_traced(self.builder, token_id, now - self.submitted_at, stats, origin)

    def count_drafts(self, drafts: VerifiedDrafts, taken: int | None = None) -> None:
        self._speculation = add_pass(self._speculation, drafts, taken)

    def end(
        self,
        kind: StopKind,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
    ) -> Finished:
        return replace(
            self.finish(self.builder.end(kind), time.perf_counter()),
            error=error,
            is_request_at_fault=is_request_at_fault,
        )

    def finish(self, stop: StopInfo, now: float) -> Finished:
        joined = self._joined_at if self._joined_at is not None else now
        first = self._first_at
        spans = self.builder.spans
        difference = self.prompt.difference
        if difference is not None and self.sequence.cached > difference.token_index:
            difference = None  # a prompt with an unfinished answer shares more
        return Finished(
            stop=stop,
            usage=Usage(
                prompt_tokens=len(self.sequence),
                cached_tokens=self.sequence.cached,
                output_tokens=self.builder.reader.count,
                thinking_tokens=self.builder.reader.thinking_tokens,
                disk_tokens=self.sequence.from_disk,
                cache_miss=self.sequence.cache_miss,
                prompt_difference=difference,
            ),
            timing=Timing(
                queued_s=joined - self.submitted_at,
                prefill_s=(first if first is not None else now) - joined,
                first_token_s=None if first is None else first - self.submitted_at,
                decode_s=0.0 if first is None else self._last_at - first,
                total_s=now - self.submitted_at,
            ),
            unfinished_tool_call=self.builder.text.unfinished,
            residue=self.builder.reader.residue,
            settled=() if spans is None else spans.settle(is_over=True),
            speculation=self._speculation,
            details=self._details(stop),
            context_length=len(self.sequence) + self.generation.setting.context_budget,
        )

    def _details(self, stop: StopInfo) -> EndDetails:
        request, end = self.generation.request, self.budget_end
        if end is not None and self.builder.reader.count <= end.token_index:
            end = None
        is_spent = end is not None and end.repetition is None
        text, calls = self.builder.text, self.builder.calls.count
        limit_from = LimitSource.MODEL if stop.kind is StopKind.CONTEXT_FULL else None
        if stop.kind is StopKind.MAX_TOKENS:
            limit_from = request.max_tokens_from
        budget_from = request.thinking_budget_from if is_spent else None
        return EndDetails(
            limit_from,
            end,
            budget_from,
            request.preset if LimitSource.PRESET in (limit_from, budget_from) else "",
            self.builder.repetition,
            planned_call(
                stop.kind, "".join(text.thinking), request, has_calls=bool(calls or text.unfinished)
            ),
            self.prompt.has_user_template,
            tuple(map(plain_name, self.generation.not_applied)),
        )
