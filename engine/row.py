"""One answer on its way through the engine thread: its pipeline, its clock, its reader."""

from collections.abc import Mapping
from dataclasses import replace

from engine.answer import AnswerBuilder
from engine.backend import Backend, Prompt, Step
from engine.events import Event, Finished, PromptProgress, Timing, TokenStats, Usage
from engine.generation import Generation
from engine.request import TraceLevel
from engine.stopping.record import StopInfo, StopKind
from engine.trace import traced


class Row:
    """The state of one accepted request. Times are ``time.perf_counter()`` seconds.

    Attributes:
        generation: The reader's handle.
        prompt: The rendered prompt; dropped once it has been read.
        number: The row's number in the batch, -1 while it waits.
        builder: The answer's pipeline.
        trace: How much of each token is reported.
    """

    __slots__ = ("_cached", "_first_at", "_joined_at", "_last_at", "_submitted_at", "builder",
                 "generation", "number", "prompt", "trace")  # fmt: skip

    def __init__(
        self, generation: Generation, prompt: Prompt, builder: AnswerBuilder, submitted_at: float
    ) -> None:
        self.generation = generation
        self.prompt = prompt
        self.builder = builder
        self.trace = generation.request.trace
        self.number = -1
        self._cached = 0
        self._submitted_at = submitted_at
        self._joined_at: float | None = None
        self._first_at: float | None = None
        self._last_at = submitted_at

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens."""
        return self.generation.prompt_tokens

    def joined(self, number: int, cached: int, now: float) -> PromptProgress:
        """Note that the row is in the batch; return the event that says so."""
        self.number = number
        self._cached = cached
        self._joined_at = now
        return PromptProgress(cached, self.prompt_tokens, cached)

    def read(self, tokens: int) -> PromptProgress:
        """Return the event for ``tokens`` read beyond the cached ones."""
        return PromptProgress(self._cached + tokens, self.prompt_tokens, self._cached)

    def sampled(
        self, token_id: int, now: float, stats: TokenStats | None = None
    ) -> StopInfo | None:
        """Take the next token; return the record if it is the last."""
        if self._first_at is None:
            self._first_at = now
        self._last_at = now
        if self.trace is TraceLevel.OFF:
            return self.builder.add(token_id)
        return traced(self.builder, token_id, now - self._submitted_at, stats)

    def finish(self, stop: StopInfo, now: float, error: str | None = None) -> Finished:
        """Return the last event."""
        joined = self._joined_at if self._joined_at is not None else now
        first = self._first_at
        return Finished(
            stop=stop,
            usage=Usage(
                prompt_tokens=self.prompt_tokens,
                cached_tokens=self._cached,
                output_tokens=self.builder.count,
                thinking_tokens=self.builder.thinking_tokens,
            ),
            timing=Timing(
                queued_s=joined - self._submitted_at,
                prefill_s=(first if first is not None else now) - joined,
                first_token_s=None if first is None else first - self._submitted_at,
                decode_s=0.0 if first is None else self._last_at - first,
                total_s=now - self._submitted_at,
            ),
            error=error,
            unfinished_tool_call=self.builder.unfinished_call,
            residue=self.builder.residue,
        )

    def end(self, kind: StopKind, now: float, error: str | None = None) -> list[Event]:
        """End the answer from outside; return its remaining events, ``Finished`` last."""
        stop = self.builder.end(kind)
        return [*self.take_events(), self.finish(stop, now, error)]

    def take_events(self) -> list[Event]:
        """Return what the pipeline has written since the last call."""
        return self.builder.take_events()


def wanted_stats(backend: Backend, rows: Mapping[int, Row], step: Step) -> dict[int, TokenStats]:
    """Return, by row, the likelihoods of a step's tokens for the rows that want a full trace."""
    wanted = [
        (number, token_id, logprobs, rows[number].generation.request.top_logprobs)
        for number, token_id, logprobs in step.sampled
        if number in rows and rows[number].trace is TraceLevel.FULL
    ]
    found = backend.stats(
        [(token_id, logprobs) for _, token_id, logprobs, _ in wanted],
        max(count for *_, count in wanted),
    )
    return {
        number: stats if len(stats.top) <= count else replace(stats, top=stats.top[:count])
        for (number, _, _, count), stats in zip(wanted, found, strict=True)
    }
