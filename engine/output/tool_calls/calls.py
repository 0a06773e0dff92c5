"""Follows the tool calls of one answer while they are written, up to their ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from engine.output.tool_calls.call_text import (
    CallEnd,
    CallPart,
    CallReader,
    CallStart,
    IrregularCall,
    NewReader,
    arguments_object,
    not_a_call,
)
from engine.output.tool_calls.formats import (
    CALL_FORMATS,
    HeadedCalls,
    PythonCalls,
    TaggedCalls,
)
from engine.output.tool_calls.json_calls import headed_calls, json_calls, named_call
from engine.output.tool_calls.parameters import ToolTypes
from engine.output.tool_calls.pythonic_calls import python_calls
from engine.output.tool_calls.tagged_calls import tagged_calls
from engine.stopping.matcher import StopMatcher
from engine.values.events import (
    Event,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import Tool, ToolCall


def readers(call_style: str, tools: Sequence[Tool], marks: Sequence[str | None] = ()) -> NewReader:
    """Return a function that makes a reader for each call of one answer."""
    call_format = CALL_FORMATS.get(call_style)
    types, between = ToolTypes(tools), tuple(mark for mark in marks if mark)
    read = json_calls(between)
    if isinstance(call_format, TaggedCalls):
        read = tagged_calls(call_format, types, between)
    elif isinstance(call_format, HeadedCalls):
        read = headed_calls(call_format, between)
    elif isinstance(call_format, PythonCalls):
        read = python_calls(types, between)

    def new_reader(name: str | None) -> CallReader:
        if name is not None:
            return CallReader(named_call(name))
        return not_a_call() if call_format is None else CallReader(read)

    return new_reader


@dataclass(slots=True)
class _Call:
    """A call that is being read: its arguments in parts, and how many of them were sent."""

    name: str
    id: str = field(default_factory=lambda: uuid4().hex[:24])
    is_started: bool = False
    parts: list[str] = field(default_factory=list)
    sent: int = 0

    def unsent(self) -> str:
        """Return the arguments that were not sent; now they are."""
        text = "".join(self.parts[self.sent :])
        self.sent = len(self.parts)
        return text

    @property
    def arguments(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class ClosedCall:
    """The outcome of the text of an open call.

    Attributes:
        stray: The text at its end that is no call.
        is_call: Whether it begins with a call.
        has_stop: Whether the stop that ended the answer is a part of the call.
    """

    events: list[Event]
    stray: str
    is_call: bool = False
    has_stop: bool = False


class OpenCalls:
    """The tool calls of one answer."""

    def __init__(self, new_reader: NewReader, guard: StopMatcher | None = None) -> None:
        self._new_reader = new_reader
        self._guard = guard
        self._reader = not_a_call()
        self._calls: list[_Call] = []
        self._text: list[str] = []
        self._begun = ""
        self._fed = 0
        self._is_guarded = False
        self.count = self.opened = 0
        self.name: str | None = None

    def open(self, name: str | None, begun: str = "") -> Sequence[Event]:
        self.name = name
        self.opened += 1
        self._begun = begun
        self._fed = 0
        self._is_guarded = False
        if self._guard is not None:
            self._guard.restart()
        self._reader = self._new_reader(name)
        return self._send(self._reader.feed(begun))

    @property
    def is_blank(self) -> bool:
        return not self._begun.strip() and not "".join(self._text).strip()

    @property
    def is_in_nested_call(self) -> bool:
        return self._reader.is_in_nested_call

    def add(self, text: str) -> Sequence[Event]:
        """Take more of the open call's text; return the events for what became certain."""
        self._text.append(text)
        if self._is_guarded:
            return ()
        if self._guard is not None:
            text = self._guard.feed(text)
            # A call that turns out to be text ends at this stop: no more is certain.
            self._is_guarded = self._guard.match is not None
        self._fed += len(text)
        return self._send(self._reader.feed(text)) if text else ()

    def close(self, ending: CallEnd, kept_stop: str = "") -> ClosedCall:
        """Read the rest of the text, with the stop behind it where only that completes a call."""
        raw = self._taken()
        before, self._begun = self._begun, ""
        rest = raw[self._fed :]
        has_stop = bool(kept_stop) and (
            not self._is_call(before + raw, ending)
            and self._is_call(before + raw + kept_stop, ending)
        )
        added = kept_stop if has_stop else ""
        if not self._read_rest(rest + added, ending):
            return ClosedCall(self._abandoned(), raw, has_stop=has_stop)
        raw += added
        end = max(self._reader.end - len(before), 0)
        raw, stray = raw[:end], raw[end:]
        events: list[Event] = []
        for number, call in enumerate(self._calls[: self._reader.count]):
            unsent = call.unsent()
            if call.is_started and unsent:
                events.append(ToolCallArguments(call.id, unsent))
            completed = ToolCall(call.id, call.name, call.arguments)
            text = "" if number else raw
            events.append(ToolCallCompleted(self.count, completed, text, self.opened))
            self.count += 1
        del self._calls[: self._reader.count]
        return ClosedCall([*events, *self._abandoned()], stray, is_call=True, has_stop=has_stop)

    def cut(self) -> ClosedCall:
        """Give the open call up; its text is stray."""
        return ClosedCall(self._abandoned(), self._taken())

    def _taken(self) -> str:
        raw = "".join(self._text)
        self._text.clear()
        return raw

    def _is_call(self, text: str, ending: CallEnd) -> bool:
        reader = self._new_reader(self.name)
        reader.feed(text)
        try:
            reader.finish(ending)
        except IrregularCall:
            return False
        return reader.end >= len(text)

    def _read_rest(self, rest: str, ending: CallEnd) -> bool:
        """Read the last text of the open call; return whether it is one."""
        try:
            self._take(self._reader.feed(rest))
            self._take(self._reader.finish(ending))
            for call in self._calls[: self._reader.count]:
                arguments_object(call.arguments)
        except ValueError:
            return False
        return True

    def _take(self, parts: Sequence[CallPart]) -> None:
        for part in parts:
            if isinstance(part, CallStart):
                self._calls.append(_Call(part.name))
            else:
                self._calls[-1].parts.append(part)

    def _send(self, parts: Sequence[CallPart]) -> list[Event]:
        events: list[Event] = []
        first = max(len(self._calls) - 1, 0)
        self._take(parts)
        for number in range(first, len(self._calls)):
            call = self._calls[number]
            if not call.is_started:
                call.is_started = True
                events.append(ToolCallStarted(self.count + number, call.id, call.name))
            if text := call.unsent():
                events.append(ToolCallArguments(call.id, text))
        return events

    def _abandoned(self) -> list[Event]:
        events: list[Event] = [
            ToolCallAbandoned(call.id) for call in self._calls if call.is_started
        ]
        self._calls.clear()
        return events
