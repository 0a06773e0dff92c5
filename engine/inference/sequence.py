"""A request in the batch: its prompt, its answer so far, and its row in mlx-lm's generator. No MLX.

Times are ``time.perf_counter()`` seconds. Engine thread.
"""

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.conversation.prompt_parts import RenderedPrompt
from engine.generation import Generation
from engine.inference.backend import Prompt
from engine.output.answer import AnswerBuilder, feed_traced
from engine.output.tool_calls.planned import planned_call
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
    add_pass,
)
from engine.values.request import (
    LOCAL_OWNER,
    CacheOwner,
    GenerationRequest,
    LimitSource,
    TraceLevel,
)
from engine.values.tokens import PromptScores, TokenOrigin, TokenStats

if TYPE_CHECKING:
    from engine.grammar.masks import TokenConstraint
    from engine.inference.sampling import PromptScorer
    from engine.inference.speculation.draft_model import ModelDrafts
    from engine.inference.speculation.sources import DraftSource
    from engine.inference.thinking_budget import BudgetProcessor

# The tokens that an answer without ``max_tokens`` is expected to need.
_USUAL_ANSWER = 2048


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the batch.

    Attributes:
        turn_end: The number of tokens up to the end of the prompt's last turn, where that is near
            the prompt's end; 0 where it is not known.
        scorer: Scores the prompt's tokens while they are read. A cache is used only up to the first
            token whose logits the scorer needs, and nothing is taken from other sequences.
        number: The number by which mlx-lm and the scheduler know it; -1 while it waits.
        cache: The cache with which it joins, of its first ``cached`` tokens; once it has left the
            batch, that of the tokens that were ``held`` there.
        held: These tokens.
        read: How many tokens of its prompt it has.
        snapshots_at: After how many tokens its cache is stored, where that cannot be cut.
        prefix_donor: The sequence that reads for it what both share; None where it reads itself.
        prefix_dependents: The sequences that wait for it, each with how many tokens both share.
    """

    tokens: list[int]
    turn_end: int = 0
    sampler: Callable[[Any], Any] | None = None
    processors: list[Any] = field(default_factory=list)
    owner: CacheOwner = LOCAL_OWNER
    scorer: "PromptScorer | None" = None
    sources: "abc.Sequence[DraftSource]" = ()
    draft: "ModelDrafts | None" = None
    constraint: "TokenConstraint | None" = None
    budget: "BudgetProcessor | None" = None
    rendered: RenderedPrompt | None = None

    number: int = field(default=-1, init=False)
    disk_epoch: int | None = field(default=None, init=False)
    cache: list[Any] | None = field(default=None, init=False)
    held: list[int] | None = field(default=None, init=False)
    cached: int = field(default=0, init=False)
    from_disk: int = field(default=0, init=False)
    cache_miss: CacheMiss | None = field(default=None, init=False)
    read: int = field(default=0, init=False)
    is_reading: bool = field(default=False, init=False)
    snapshots_at: set[int] = field(default_factory=set, init=False)
    prefix_donor: "Sequence | None" = field(default=None, init=False)
    prefix_dependents: "dict[Sequence, int]" = field(default_factory=dict, init=False)
    is_joined: bool = field(default=False, init=False)
    last_token: int = field(default=-1, init=False)
    is_invalid: bool = field(default=False, init=False)
    key: bytes = field(default=b"", init=False, repr=False)

    generation: Generation = field(init=False, repr=False)
    prompt: Prompt = field(init=False, repr=False)
    builder: AnswerBuilder = field(init=False, repr=False)
    submitted_at: float = field(default=0.0, init=False)
    budget_end: BudgetEnd | None = field(default=None, init=False)
    _trace: TraceLevel = field(default=TraceLevel.OFF, init=False)
    _expected_tokens: int = field(default=0, init=False)
    # Tokens read beyond the cached ones, as the last event states them.
    _progress: int = field(default=0, init=False)
    _joined_at: float | None = field(default=None, init=False)
    _first_at: float | None = field(default=None, init=False)
    _last_at: float = field(default=0.0, init=False)
    _speculation: Speculation = field(default_factory=Speculation, init=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def unread(self) -> int:
        """How many tokens of its prompt it has not read yet; at least 1."""
        return max(1, len(self.tokens) - self.read)

    def begin_answer(
        self, generation: Generation, prompt: Prompt, builder: AnswerBuilder, submitted_at: float
    ) -> None:
        self.generation, self.prompt, self.builder = generation, prompt, builder
        self.owner = generation.request.cache_owner
        self.submitted_at = self._last_at = submitted_at
        request, setting = generation.request, generation.setting
        self._trace = request.trace
        limit = setting.context_budget if setting.memory_budget is None else setting.memory_budget
        answer = _USUAL_ANSWER if request.max_tokens is None else request.max_tokens
        self._expected_tokens = len(self) + min(limit, answer)

    @property
    def is_fully_traced(self) -> bool:
        return self._trace is TraceLevel.FULL

    @property
    def total_tokens(self) -> int:
        return len(self) + self.builder.count

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
        return self.cached + self._progress >= len(self) - 1

    def start(self, now: float) -> list[Event]:
        """Note that it has joined the batch; return its first events."""
        self._joined_at = now
        events: list[Event] = [PromptProgress(self.cached, len(self), self.cached)]
        scoring = self.generation.request.prompt_scoring
        if scoring is not None and not scoring.start:
            events.append(PromptScores(0, tuple(self.tokens[:1])))  # the first token has no score
        return events

    def note_progress(self, tokens: int) -> None:
        """Add an event of ``tokens`` read beyond the cached ones; it is not worth a wake-up."""
        self._progress = tokens
        event = PromptProgress(self.cached + tokens, len(self), self.cached)
        self.builder.events.append(event)

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
        self._last_at = now
        self.generation.written_tokens += 1
        if self._trace is TraceLevel.OFF:
            return self.builder.add(token_id)
        if isinstance(stats, Exception):
            raise stats
        end = self.budget_end
        index, fork = self.builder.count, self.generation.request.fork
        if fork is not None and index < len(fork.tokens):  # the logits name no other token there
            origin = TokenOrigin.SAMPLED if index < fork.token_index else TokenOrigin.CHOSEN
            stats = fork.stats[index] if index < len(fork.stats) else None
        if end and end.token_index <= index < end.token_index + end.forced:
            origin = TokenOrigin.BUDGET
        return feed_traced(self.builder, token_id, now - self.submitted_at, stats, origin)

    def count_drafts(self, drafts: VerifiedDrafts, taken: int | None = None) -> None:
        self._speculation = add_pass(self._speculation, drafts, taken)

    def finish(
        self,
        stop: StopInfo,
        now: float,
        error: str | None = None,
        *,
        is_request_at_fault: bool = False,
    ) -> Finished:
        joined = self._joined_at if self._joined_at is not None else now
        first = self._first_at
        spans = self.builder.spans
        end = self.budget_end
        difference = self.prompt.difference
        if difference is not None and self.cached > difference.token_index:
            difference = None  # a prompt with an unfinished answer shares more
        if end is not None and self.builder.count <= end.token_index:
            end = None
        is_spent = end is not None and end.repetition is None
        request = self.generation.request
        return Finished(
            stop=stop,
            usage=Usage(
                prompt_tokens=len(self),
                cached_tokens=self.cached,
                output_tokens=self.builder.count,
                thinking_tokens=self.builder.reader.thinking_tokens,
                disk_tokens=self.from_disk,
                cache_miss=self.cache_miss,
                prompt_difference=difference,
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
            unfinished_tool_call=self.builder.reader.text.unfinished,
            residue=self.builder.reader.residue,
            settled=() if spans is None else spans.settle(is_over=True),
            speculation=self._speculation,
            budget_end=end,
            context_length=len(self) + self.generation.setting.context_budget,
            repetition=self.builder.repetition,
            limit_from=_limit_source(stop, request),
            budget_from=request.thinking_budget_from if is_spent else None,
            planned_call=planned_call(
                stop.kind, self.builder.thinking, request, has_calls=self.builder.has_calls
            ),
        )


def _limit_source(stop: StopInfo, request: GenerationRequest) -> LimitSource | None:
    """Return who set the limit that ended an answer; None if none did."""
    if stop.kind is StopKind.MAX_TOKENS:
        return request.max_tokens_from
    return LimitSource.MODEL if stop.kind is StopKind.CONTEXT_FULL else None
