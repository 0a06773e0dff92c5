"""Runs a case through the product: the pipeline that admission builds, token by token."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from engine.generation import Generation
from engine.scheduling.admission import admit
from engine.scheduling.running_answer import RunningAnswer
from engine.stopping.record import StopKind
from engine.values.events import (
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import GenerationRequest, Message, Sampling, Tool, TraceLevel
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import CONTEXT, EOS, texts_of_tags


@dataclass
class Run:
    """What the product made of a case.

    Attributes:
        events: All events, in their order.
        shown: The text and the thinking that had gone out after each token.
    """

    events: list[Event] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)

    @property
    def finished(self) -> Finished:
        """The only end, which is the last event."""
        ends = [event for event in self.events if isinstance(event, Finished)]
        assert len(ends) == 1, "exactly one Finished"
        assert self.events[-1] is ends[0], "nothing follows Finished"
        return ends[0]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ThinkingDelta))

    @property
    def calls(self) -> tuple[tuple[str, Any], ...]:
        """The calls, as name and arguments."""
        return tuple((name, json.loads(arguments)) for name, arguments in self.raw_calls)

    @property
    def raw_calls(self) -> list[tuple[str, str]]:
        """The calls, with their arguments as they were written."""
        calls = (event.call for event in self.events if isinstance(event, ToolCallCompleted))
        return [(call.name, call.arguments) for call in calls]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def messages_of(case: Case) -> tuple[Message, ...]:
    """Return messages whose rendered prompt ends as the case says; the question quotes tags."""
    quoted = "".join(texts_of_tags(case.model))
    asked = Message("user", f"What is {quoted}?")
    if case.is_prefill:
        return (asked, Message("assistant", case.prompt))
    return (asked,)


TOOLS = (Tool("add", "", {}), Tool("mul", "", {}))


def request_of(case: Case, trace: TraceLevel = TraceLevel.OFF) -> GenerationRequest:
    return GenerationRequest(
        messages=() if case.is_raw else messages_of(case),
        prompt=case.prompt if case.is_raw else None,
        sampling=Sampling(temperature=0.0),
        stops=case.rules,
        max_tokens=case.max_tokens,
        trace=trace,
        tools=TOOLS if case.has_tools else (),
        template_options={} if case.is_raw else {"tail": case.prompt},
    )


@cache
def _prompt_length(kind: str, family: str, prompt: str, is_raw: bool, is_prefill: bool) -> int:
    case = Case(kind, family, (), prompt=prompt, is_raw=is_raw, is_prefill=is_prefill)
    backend = case.model.backend
    # An earlier case may have left a context in which this prompt has no room.
    backend.info = replace(backend.info, context_length=CONTEXT)
    return len(backend.render(request_of(case)).tokens)


def answer_of(case: Case, trace: TraceLevel = TraceLevel.OFF) -> RunningAnswer:
    """Return the answer that admission makes of a case's request."""
    backend = case.model.backend
    request = request_of(case, trace)
    length = _prompt_length(case.kind, case.family, case.prompt, case.is_raw, case.is_prefill)
    backend.info = replace(backend.info, context_length=length + case.room)
    generation = Generation(request, _loop(), lambda _: None)
    return admit(backend, generation, backend.render(request), 0.0)


def run(case: Case) -> Run:
    """Play a case through an answer of its own."""
    return play(case, answer_of(case))


def play(case: Case, answer: RunningAnswer) -> Run:
    """Give an answer the tokens of a case; the events of calls sent early must add up."""
    out = _played(case, answer)
    check_growth(out.events)
    return out


def check_growth(events: Sequence[Event]) -> None:
    """Check that the increments of each call add up to its arguments."""
    growing: dict[str, str] = {}
    for event in events:
        match event:
            case ToolCallStarted():
                growing[event.call_id] = ""
            case ToolCallArguments():
                growing[event.call_id] += event.text
            case ToolCallAbandoned():
                del growing[event.call_id]
            case ToolCallCompleted():
                told = growing.pop(event.call.id, event.call.arguments)
                assert told == event.call.arguments, "increments add up"
            case _:
                pass
    assert not growing, "every call that was started ends"


def _played(case: Case, answer: RunningAnswer) -> Run:
    out = Run()
    eos = case.model.ids[EOS]
    text = thinking = ""
    for index in range(5000):
        if index == case.cancel_after:
            end = answer.finish(answer.builder.end(StopKind.CANCELLED), 0.0)
            out.events += [*answer.builder.take_events(), end]
            return out
        token = case.script[index] if index < len(case.script) else eos
        stop = answer.take(token, 0.0)
        events = answer.builder.take_events()
        out.events += events
        if stop is not None:
            out.events.append(answer.finish(stop, 0.0))
            return out
        for event in events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ThinkingDelta):
                thinking += event.text
        out.shown.append((text, thinking))
    raise AssertionError("the answer never ends")
