"""The trace of a run, token by token: as it is recorded, and as it is stored."""

from array import array
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.output.answer import DecodingSetting
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import (
    BudgetEnd,
    Event,
    Finished,
    Speculation,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import Fork, GenerationRequest, LimitSource, ToolCall

if TYPE_CHECKING:
    from engine.generation import Generation

MAX_RUN_TOKENS = 20_000


@dataclass(slots=True)
class RunTrace:
    """One run, while it grows and afterwards, with everything that a replay needs.

    Attributes:
        calls: The calls that each text of a call was read as.
        vocabulary: None for a saved run.
        request: Without ``rendered``. Of a saved run, without its cache's owner; None in files of
            earlier versions.
        rendered: The token ids of the rendered messages; empty for a raw prompt, and in files of
            earlier versions.
    """

    setting: DecodingSetting
    rules: StopRules
    max_tokens: int | None = None
    tokens: deque[TokenTrace] = field(default_factory=partial(deque, maxlen=MAX_RUN_TOKENS))
    stop: StopInfo | None = None
    residue: str = ""
    speculation: Speculation = field(default_factory=Speculation)
    budget_end: BudgetEnd | None = None
    limit_from: LimitSource | None = None
    calls: dict[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    request: GenerationRequest | None = None
    rendered: "array[int]" = field(default_factory=lambda: array("i"))
    _call_text: str | None = field(default=None, repr=False, compare=False)

    @property
    def fork(self) -> Fork | None:
        """The earlier answer whose beginning it repeats; None for none."""
        return None if self.request is None else self.request.fork

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
            if event.stop.kind is StopKind.MEMORY_FULL:
                # The scheduler may have ended it before the budget with which it began.
                self.setting = replace(self.setting, memory_budget=event.usage.output_tokens)
            self.residue = event.residue
            self.speculation = event.speculation
            self.budget_end = event.budget_end
            self.limit_from = event.limit_from


def trace_for(generation: "Generation", tokens: deque[TokenTrace] | None = None) -> RunTrace:
    """Return the trace of a generation with its tokens so far; by default none is ever dropped."""
    request = generation.request
    return RunTrace(
        generation.setting,
        request.stops,
        request.max_tokens,
        deque() if tokens is None else tokens,
        vocabulary=generation.vocabulary,
        request=replace(request, rendered=()),
        rendered=generation.rendered,
    )
