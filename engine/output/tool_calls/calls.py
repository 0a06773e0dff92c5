"""Follows tool calls while they are written, and parses each when it is complete."""

import json
from collections.abc import Callable, Sequence
from uuid import uuid4

from engine.output.families import COMMAND, DEEPSEEK, GEMMA, JSON_CALLS, KIMI, LLAMA
from engine.output.tool_calls.call_text import (
    CallParser,
    CallPart,
    CallReader,
    Format,
    NewReader,
    arguments_text,
    whole_calls,
)
from engine.output.tool_calls.json_calls import (
    command,
    deepseek,
    json_calls,
    kimi_k2,
    llama,
    mistral,
    named_call,
)
from engine.output.tool_calls.pythonic_calls import parse_tool_code, pythonic, tool_code
from engine.output.tool_calls.tagged_calls import (
    function_gemma,
    gemma4,
    glm47,
    kimi_k3,
    longcat,
    minicpm5,
    minimax_m2,
    muse_spark,
    qwen3_coder,
)
from engine.stopping.matcher import StopMatcher
from engine.values.events import (
    Event,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import ToolCall

_FORMATS: dict[str, Format] = {
    JSON_CALLS: json_calls,
    "gemma4": gemma4,
    "mistral": mistral,
}
# Formats whose values the model's parser converts.
_CONVERTING: dict[str, Callable[[CallParser], Format]] = {
    "function_gemma": function_gemma,
    "glm47": glm47,
    "kimi_k3": kimi_k3,
    "longcat": longcat,
    "minicpm5": minicpm5,
    "minimax_m2": minimax_m2,
    "muse_spark": muse_spark,
    "pythonic": pythonic,
    "qwen3_coder": qwen3_coder,
    GEMMA: tool_code,
}
# Formats that mlx-lm has no parser for, or infers none for.
_OWN: dict[str, Format] = {
    COMMAND: command,
    DEEPSEEK: deepseek,
    KIMI: kimi_k2,
    LLAMA: llama,
}

STYLES = frozenset({*_FORMATS, *_CONVERTING, *_OWN})
"""The names of the styles whose calls can be read while they are written."""


def own_parser(call_style: str) -> Callable[..., object] | None:
    """Return our parser of a format, for models that mlx-lm infers none for; called as its own."""
    if call_style == JSON_CALLS:
        return lambda raw, tools: json.loads(raw.strip())
    if call_style == GEMMA:
        return parse_tool_code
    read = _OWN.get(call_style)
    return None if read is None else lambda raw, tools: whole_calls(read, raw)


def readers(call_style: str, parse: CallParser) -> NewReader:
    """Return a function that makes a reader for each call of one answer.

    Args:
        call_style: The name of the format of the model's calls.
        parse: The parser of its calls.
    """
    converting = _CONVERTING.get(call_style)
    style = converting(parse) if converting is not None else {**_FORMATS, **_OWN}.get(call_style)

    def new_reader(name: str | None) -> CallReader | None:
        read = style if name is None else named_call(name)
        return None if read is None else CallReader(read)

    return new_reader


class _StartedCall:
    """A call of which parts were sent before it was complete."""

    __slots__ = ("_texts", "id", "is_closed", "name")

    def __init__(self, name: str) -> None:
        self.id = _new_id()
        self.name = name
        self.is_closed = False
        self._texts: list[str] = []

    def add(self, text: str) -> ToolCallArguments:
        """Return the event for more of its arguments."""
        self._texts.append(text)
        return ToolCallArguments(self.id, text)

    def missing(self, arguments: str) -> str | None:
        """Return the missing end of its arguments; None if they differ from what was sent.

        A repeated key was sent as often as it was written, which means the same.
        """
        sent = self.arguments
        if arguments.startswith(sent):
            return arguments[len(sent) :]
        rest = "" if self.is_closed else "}"
        try:
            is_same = json.dumps(json.loads(sent + rest), ensure_ascii=False) == arguments
        except ValueError:
            is_same = False
        return rest if is_same else None

    @property
    def arguments(self) -> str:
        """All text of its arguments that was sent."""
        return "".join(self._texts)


class OpenCalls:
    """The tool calls of one answer."""

    __slots__ = ("_begun", "_guard", "_new_reader", "_parse", "_reader", "_started", "_text",
                 "count", "has_stop", "is_fresh", "name", "unfinished")  # fmt: skip

    def __init__(
        self, parse: CallParser, new_reader: NewReader, guard: StopMatcher | None = None
    ) -> None:
        self._parse = parse
        self._new_reader = new_reader
        self._guard = guard
        self._reader: CallReader | None = None
        self._started: list[_StartedCall] = []
        self._text: list[str] = []
        self._begun = ""
        self.count = 0
        self.is_fresh = self.has_stop = False
        self.name: str | None = None
        self.unfinished = ""

    def open(self, name: str | None, begun: str = "") -> Sequence[Event]:
        """Open a call; return the events for the parts that are certain."""
        self.name = name
        self._begun = begun
        if self._guard is not None:
            self._guard.restart()
        self._reader = self._new_reader(name)
        return self._read(begun)

    @property
    def is_blank(self) -> bool:
        """Whether the open call has no text yet."""
        return not self._begun.strip() and not "".join(self._text).strip()

    def add(self, text: str) -> Sequence[Event]:
        """Take more of the open call's text; return the events for what became certain."""
        self._text.append(text)
        if self._reader is None:
            return ()
        if self._guard is None:
            return self._read(text)
        safe = self._guard.feed(text)
        events = self._read(safe) if safe else ()
        if self._guard.match is not None:
            self._reader = None
        return events

    def close(self, kept_stop: str = "") -> tuple[list[Event], str]:
        """Parse the collected text; return its calls, or the text itself if it is not a call.

        Text whose arguments are not one JSON object is not a call, so everything that shows calls
        can rely on their arguments.
        """
        raw = self._taken()
        begun, self._begun = self._begun, ""
        parsed = self._parsed(begun + raw)
        if not parsed and kept_stop and (parsed := self._parsed(begun + raw + kept_stop)):
            raw += kept_stop
            self.has_stop = True
        if not parsed:
            return self._abandoned(), raw
        events: list[Event] = []
        for number, (name, arguments) in enumerate(parsed):
            call = self._completed(name, arguments, events)
            events.append(ToolCallCompleted(self.count, call, "" if number else raw))
            self.count += 1
            self.is_fresh = True
        return [*events, *self._abandoned()], ""

    def _parsed(self, text: str) -> list[tuple[str, str]]:
        try:
            calls = self._parse(text, self.name)
            return [(name, arguments_text(arguments)) for name, arguments in calls]
        except ValueError:
            return []

    def cut(self) -> list[Event]:
        """Keep the collected text as an unfinished call."""
        self.unfinished = self._taken()
        return self._abandoned()

    def _taken(self) -> str:
        raw = "".join(self._text)
        self._text.clear()
        self._reader = None
        return raw

    # -- events while a call is written ----------------------------------------------------

    def _read(self, text: str) -> list[Event]:
        reader = self._reader
        if reader is None:
            return []
        events = [self._event_of(part) for part in reader.feed(text)]
        if reader.is_over:
            self._reader = None
        return events

    def _event_of(self, part: CallPart) -> Event:
        if isinstance(part, str):
            return self._started[-1].add(part)
        if self._started:
            self._started[-1].is_closed = True
        call = _StartedCall(part.name)
        self._started.append(call)
        return ToolCallStarted(self.count + len(self._started) - 1, call.id, call.name)

    def _completed(self, name: str, arguments: str, events: list[Event]) -> ToolCall:
        """Return a call as its parser found it; add the events that have to precede it."""
        if self._started:
            call = self._started[0]
            rest = call.missing(arguments) if call.name == name else None
            if rest is not None:
                if rest:
                    events.append(call.add(rest))
                del self._started[0]
                return ToolCall(call.id, name, call.arguments)
            events += self._abandoned()
        return ToolCall(_new_id(), name, arguments)

    def _abandoned(self) -> list[Event]:
        """Return the events that withdraw the calls that were begun."""
        events: list[Event] = [ToolCallAbandoned(call.id) for call in self._started]
        self._started.clear()
        return events


def _new_id() -> str:
    return uuid4().hex[:24]
