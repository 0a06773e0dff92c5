"""Servers with one fault of the wire's shape each, made from what the correct server sends.

A mutation takes one value, or one event, of one kind of what a server sends and spoils it.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from api.conformance.captures.messages_reader import MESSAGES_REASONS
from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.openai_wires import sse
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said

CHAT, COMPLETIONS, MESSAGES = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.MESSAGES
RESPONSES, GENERATE, OLLAMA = WireDialect.RESPONSES, WireDialect.GENERATE, WireDialect.OLLAMA

Path = tuple[str, ...]
_EACH = "*"
_GONE = object()
_SPELLINGS: dict[str, Sequence[str]] = {
    "stop_reason": tuple(sorted(MESSAGES_REASONS)),
    "finish_reason": ("stop", "length", "tool_calls", "content_filter"),
    "done_reason": ("stop", "length", "load"),
    "status": ("completed", "incomplete", "in_progress", "failed"),
    "type": ("stop", "length", "abort", "text", "thinking", "function", "message", "output_text"),
    "role": ("user", "tool", "system"),
    "reason": ("content_filter", "max_output_tokens"),
}


@dataclass(frozen=True)
class Mutation:
    """One fault.

    Attributes:
        dialect: The dialect.
        kind: The kind of event; empty for whole answers.
        path: The value that is spoilt; empty for the event itself.
        name: How it is spoilt.
        which: Which of the events of its kind: ``all``, ``first`` or ``last``.
    """

    dialect: WireDialect
    kind: str
    path: Path
    name: str
    which: str = "all"

    def __str__(self) -> str:
        place = ".".join(self.path) or "event"
        which = "" if self.which == "all" else f" ({self.which})"
        return f"{self.dialect} {self.kind or 'whole'}{which}: {place} {self.name}"


# What an answer is asked with, so that each kind of event occurs.

_PROMPT = "Repeat exactly: The quick brown fox"


def _queries(dialect: WireDialect) -> Iterator[Query]:
    def query(**more: Any) -> Query:
        body = {"stream_options": {"include_usage": True}, "for": sorted(more)}
        return Query(**({"prompt": _PROMPT, "stops": (), "limit": 64, "body": body} | more))

    for is_streamed in (False, True):
        yield query(is_streamed=is_streamed)
        yield query(is_streamed=is_streamed, stops=("brown",))
        yield query(is_streamed=is_streamed, limit=4)
        if dialect not in (COMPLETIONS, GENERATE):
            yield query(is_streamed=is_streamed, is_thinking=True)
            yield query(is_streamed=is_streamed, has_tool=True, prompt="Call the tool")
        if dialect in (CHAT, COMPLETIONS):
            yield query(is_streamed=is_streamed, has_logprobs=True)
            yield query(is_streamed=is_streamed, choices=2)


# Events of a stream.


@dataclass
class Event:
    """One event of a stream; no value for the mark of its end."""

    name: str
    value: dict[str, Any] | None

    def encoded(self, dialect: WireDialect) -> bytes:
        """Return the frame."""
        if dialect is OLLAMA:
            return f"{json.dumps(self.value)}\n".encode()
        return sse("[DONE]" if self.value is None else self.value, self.name)

    @property
    def kind(self) -> str:
        """What the event is, among those of its stream."""
        value = self.value
        if value is None:
            return "[DONE]"
        if "type" in value:
            inner = value.get("item") or value.get("content_block") or value.get("part") or {}
            inner = inner or value.get("delta") or {}
            more = inner.get("type", "") if isinstance(inner, dict) else ""
            return f"{value['type']} {more}".strip()
        if "choices" in value:
            return _kind_of_chunk(value)
        if "meta_info" in value:
            return "last" if value["meta_info"].get("finish_reason") else "text"
        message = value.get("message", {})
        part = next((name for name in ("tool_calls", "thinking") if message.get(name)), "text")
        return "last" if value.get("done") and part == "text" else part


def _kind_of_chunk(value: dict[str, Any]) -> str:
    if not value["choices"]:
        return "usage"
    choice = value["choices"][0]
    if choice.get("finish_reason"):
        return "last"
    delta = choice.get("delta", {})
    names = ("role", "tool_calls", "reasoning_content")
    return next((name for name in names if name in delta), "text")


def _events(frames: Sequence[bytes]) -> list[Event]:
    events = []
    for frame in frames:
        head, _, data = frame.rpartition(b"data: ")
        name = head.decode().removeprefix("event: ").strip()
        is_mark = data.strip() == b"[DONE]"
        events.append(Event(name, None if is_mark else json.loads(data)))
    return events


# How values are spoilt.

Spoil = Callable[[Any, int], Any]


def _spoils_of(path: Path, value: Any) -> Iterator[tuple[str, Spoil]]:
    """Yield the ways in which a value can be spoilt, each with its name."""
    yield "dropped", lambda value, number: _GONE
    if value is not None:
        yield "null", lambda value, number: None
    for name, spoil in _typed_spoils_of(path, value):
        # Elsewhere the field may be null.
        yield name, partial(_if_alike, type(value), spoil)


def _if_alike(wanted: type, spoil: Spoil, value: Any, number: int) -> Any:
    return spoil(value, number) if type(value) is wanted else value


def _typed_spoils_of(path: Path, value: Any) -> Iterator[tuple[str, Spoil]]:
    match value:
        case bool():
            yield "inverted", lambda value, number: not value
            yield "a string", lambda value, number: str(value).lower()
        case int():
            yield "a string", lambda value, number: str(value)
            yield "0", lambda value, number: 0
            yield "-1", lambda value, number: -1
            yield "one more", lambda value, number: value + 1
            yield "one less", lambda value, number: value - 1
            yield "a fraction", lambda value, number: value + 0.5
            yield "7", lambda value, number: 7
        case float():
            yield "a string", lambda value, number: str(value)
            yield "positive", lambda value, number: 0.5
        case str():
            yield "empty", lambda value, number: ""
            yield "a number", lambda value, number: 5
            yield "an object", lambda value, number: {"text": value}
            yield "an array", lambda value, number: [value]
            yield "another", lambda value, number: "another"
            yield "twice", lambda value, number: value + value
            yield "numbered", lambda value, number: f"{value}{number}"
            for other in _SPELLINGS.get(path[-1], ()):
                yield other, lambda value, number, other=other: other
        case list():
            yield "empty", lambda value, number: []
            yield "an object", lambda value, number: value[0] if value else {}
            yield "a string", lambda value, number: json.dumps(value)
            yield "doubled", lambda value, number: value + copy.deepcopy(value)
            yield "reversed", lambda value, number: value[::-1]
            yield "without its last", lambda value, number: value[:-1]
        case dict():
            yield "empty", lambda value, number: {}
            yield "an array", lambda value, number: [value]
            yield "a string", lambda value, number: json.dumps(value)


_ON_EVENTS = ("dropped", "doubled", "swapped", "at the end", "at the beginning", "renamed")


def _paths(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path of each value, and the value."""
    if path and path[-1] != _EACH:
        yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from _paths(value[0], (*path, _EACH))


def _spoil_in(value: Any, path: Path, spoil: Spoil, number: int) -> None:
    """Spoil the values at a path in place."""
    name, rest = path[0], path[1:]
    if name == _EACH:
        for item in value if isinstance(value, list) else ():
            _spoil_in(item, rest, spoil, number)
    elif isinstance(value, dict) and name in value and rest:
        _spoil_in(value[name], rest, spoil, number)
    elif isinstance(value, dict) and name in value:
        changed = spoil(value[name], number)
        if changed is _GONE:
            del value[name]
        else:
            value[name] = changed


# All mutations, and the server that has one.


class Mutant(FamilyServer):
    """Spoils one thing."""

    only = (
        *("baseline", "stop.one_character", "stop.across_tokens", "stop.very_first"),
        *("stop.held_at_the_end", "limit", "limit.held", "reason.natural", "thinking.*"),
        *("tools.*", "choices.*", "logprobs.*", "usage.*", "form.*", "stream.framing"),
    )

    def __init__(self, mutation: Mutation, spoil: Spoil | None = None) -> None:
        super().__init__(mutation.dialect)
        self._mutation = mutation
        self._spoil = spoil or _spoil_of(mutation)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        """Return the frames of a stream."""
        frames = super().frames(said, query)
        if not self._mutation.kind:
            return frames
        events = _events(frames)
        places = [at for at, event in enumerate(events) if event.kind == self._mutation.kind]
        chosen = {"all": places, "first": places[:1], "last": places[-1:]}[self._mutation.which]
        if self._mutation.path:
            for number, at in enumerate(chosen):
                _spoil_in(events[at].value, self._mutation.path, self._spoil, number)
        else:
            events = self._moved(events, chosen)
        return [event.encoded(self.dialect) for event in events]

    def _moved(self, events: list[Event], chosen: Sequence[int]) -> list[Event]:
        own, rest = [events[at] for at in chosen], list(events)
        for event in own if self._mutation.name != "renamed" else ():
            rest = [other for other in rest if other is not event]
        match self._mutation.name:
            case "dropped":
                return rest
            case "doubled":
                return [one for at, one in enumerate(events) for _ in range(1 + (at in chosen))]
            case "swapped":
                for at in chosen:
                    if at + 1 < len(events):
                        events[at], events[at + 1] = events[at + 1], events[at]
                return events
            case "at the end":
                return [*rest, *own]
            case "at the beginning":
                return [*own, *rest]
            case _:
                for event in own:
                    event.name = f"{event.name}.other"
                return events

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        whole = super().body(said, query)
        if not self._mutation.kind:
            _spoil_in(whole, self._mutation.path, self._spoil, self.asked)
        return whole

    def sent(self, query: Query) -> str:
        """Return what is sent in answer to a request."""
        said = self.answers(query)
        if query.is_streamed:
            return b"".join(self.frames(said, query)).decode()
        return json.dumps(self.body(said, query))


def _spoil_of(mutation: Mutation) -> Spoil:
    for path, value in _values_of(mutation.dialect).get(mutation.kind, {}).items():
        if path == mutation.path:
            for name, spoil in _spoils_of(path, value):
                if name == mutation.name:
                    return spoil
    return lambda value, number: value


def _values_of(dialect: WireDialect) -> dict[str, dict[Path, Any]]:
    """Return the values of each kind of event by their paths, of all answers together."""
    server = FamilyServer(dialect)
    found: dict[str, dict[Path, Any]] = {}
    for query in _queries(dialect):
        said = server.answers(query)
        values = [("", server.body(said, query))]
        if query.is_streamed:
            values = [
                (event.kind, event.value or {}) for event in _events(server.frames(said, query))
            ]
        for kind, value in values:
            known = found.setdefault(kind, {})
            for path, inner in _paths(value):
                if known.get(path) in (None, [], ""):
                    known[path] = inner
    return found


def mutations(dialect: WireDialect) -> Iterator[Mutation]:
    """Yield every mutation of what a correct server sends in a dialect."""
    for kind, values in _values_of(dialect).items():
        for name in _ON_EVENTS if kind else ():
            for which in ("all", "first", "last"):
                yield Mutation(dialect, kind, (), name, which)
        for path, value in values.items():
            for name, _ in _spoils_of(path, value):
                for which in ("all", "first", "last") if kind else ("all",):
                    yield Mutation(dialect, kind, path, name, which)


def sent(mutation: Mutation) -> list[str]:
    """Return what a server with a mutation sends to all kinds of requests, where it differs."""
    right, wrong = FamilyServer(mutation.dialect), Mutant(mutation)
    differing = []
    for query in _queries(mutation.dialect):
        text = wrong.sent(query)
        if text != _sent_by(right, query):
            differing.append(text)
    return differing


def _sent_by(server: FamilyServer, query: Query) -> str:
    said = server.answers(query)
    if query.is_streamed:
        return b"".join(server.frames(said, query)).decode()
    return json.dumps(server.body(said, query))
