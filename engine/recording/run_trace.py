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
    EndDetails,
    Event,
    Finished,
    Speculation,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import Fork, GenerationRequest, ToolCall

if TYPE_CHECKING:
    from engine.generation import Generation

MAX_RUN_TOKENS = 20_000


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """The calls that one text was read as; its ``number`` is 0 in files of earlier versions."""

    raw: str
    calls: tuple[ToolCall, ...]
    number: int = 0


@dataclass(slots=True)
class RunTrace:
    """One run, while it grows and afterwards, with everything that a replay needs.

    Attributes:
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
    details: EndDetails = field(default_factory=EndDetails)
    calls: list[RecordedCalls] = field(default_factory=list)
    vocabulary: Vocabulary | None = None
    request: GenerationRequest | None = None
    rendered: "array[int]" = field(default_factory=lambda: array("i"))

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
        return self.stop is not None and self.is_whole

    def take(self, event: Event) -> None:
        if isinstance(event, TokenTrace):
            self.tokens.append(event)
        elif isinstance(event, ToolCallCompleted):
            last = self.calls[-1] if self.calls else None
            if last is not None and last.number == event.text_number:
                self.calls[-1] = replace(last, calls=(*last.calls, event.call))
            else:
                self.calls.append(RecordedCalls(event.raw, (event.call,), event.text_number))
        elif isinstance(event, Finished):
            self.stop = event.stop
            if event.stop.kind is StopKind.MEMORY_FULL:
                # The scheduler may have ended it before the budget with which it began.
                self.setting = replace(self.setting, memory_budget=event.usage.output_tokens)
            self.residue = event.residue
            self.speculation = event.speculation
            self.details = event.details


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
