"""The trace of a run, token by token: as it is recorded, and as it is stored."""

from collections import deque

from engine.generation import Generation
from engine.output.answer import DecodingContext
from engine.output.vocabulary import Vocabulary
from engine.recording.replay import RecordedToken, Recording, replay
from engine.stopping.record import StopInfo
from engine.stopping.rules import StopRules
from engine.values.events import (
    BudgetEnd,
    Event,
    Finished,
    Speculation,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import GenerationRequest, ToolCall

MAX_RUN_TOKENS = 20_000


class RunTrace:
    """The trace of one run, while it grows and afterwards.

    Attributes:
        max_tokens: Its limit of tokens; None for none.
        budget_end: Where a budget ended its reasoning; None where none did.
        vocabulary: The model's vocabulary; None for a saved run.
        request: The request; None for a saved run.
    """

    def __init__(
        self,
        setting: DecodingContext,
        rules: StopRules,
        max_tokens: int | None,
        capacity: int | None = MAX_RUN_TOKENS,
    ) -> None:
        self.setting = setting
        self.rules = rules
        self.max_tokens = max_tokens
        self.tokens: deque[TokenTrace] = deque(maxlen=capacity)
        self.stop: StopInfo | None = None
        self.residue = ""
        self.speculation = Speculation()
        self.budget_end: BudgetEnd | None = None
        self.calls: dict[str, tuple[ToolCall, ...]] = {}
        self.vocabulary: Vocabulary | None = None
        self.request: GenerationRequest | None = None
        self._call_text: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no token is missing; only then can the run be replayed."""
        return bool(self.tokens) and self.tokens[0].index == 0

    @property
    def can_be_replayed(self) -> bool:
        """Whether the run has ended and no token of it is missing."""
        return self.stop is not None and self.is_whole

    def take(self, event: Event) -> None:
        if isinstance(event, TokenTrace):
            self.tokens.append(event)
            self._call_text = None
        elif isinstance(event, ToolCallCompleted):
            # One text may hold several calls, which arrive together; the first carries the text.
            # Equal texts hold equal calls.
            is_first = bool(event.raw) or self._call_text is None
            text = event.raw if is_first else str(self._call_text)
            known = () if is_first else self.calls[text]
            self.calls[text] = (*known, event.call)
            self._call_text = text
        elif isinstance(event, Finished):
            self.stop = event.stop
            self.residue = event.residue
            self.speculation = event.speculation
            self.budget_end = event.budget_end

    def recording(self) -> Recording | None:
        """Return the run for a replay; None before its end and where tokens are missing."""
        return self.as_recording(self.stop) if self.stop is not None and self.is_whole else None

    def as_recording(self, stop: StopInfo | None = None) -> Recording:
        """Return the tokens so far as a run with this end, or with its own."""
        stop = stop or self.stop
        assert stop is not None, "the run has ended"
        return Recording(
            setting=self.setting,
            rules=self.rules,
            max_tokens=self.max_tokens,
            tokens=tuple(
                RecordedToken(t.token_id, t.raw, t.piece, t.special, t.time_s, t.origin)
                for t in self.tokens
            ),
            residue=self.residue,
            calls=self.calls,
            stop=stop,
            speculation=self.speculation,
            budget_end=self.budget_end,
        )


def trace_of(recording: Recording) -> RunTrace:
    """Return the trace of a saved run, by replaying its tokens with its own stops."""
    played = replay(recording, is_traced=True)
    limit = max(1, len(recording.tokens))
    trace = RunTrace(recording.setting, recording.rules, recording.max_tokens, limit)
    for event in played.events:
        if isinstance(event, TokenTrace):
            trace.take(event)
    trace.calls = recording.calls
    trace.residue = recording.residue
    trace.speculation = recording.speculation
    trace.budget_end = recording.budget_end
    trace.stop = played.stop or recording.stop
    return trace


def trace_for(generation: Generation) -> RunTrace:
    """Return an empty trace for the events of a generation; no token is dropped."""
    request = generation.request
    return RunTrace(generation.setting, request.stops, request.max_tokens, None)
