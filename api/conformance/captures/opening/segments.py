"""Splits a text at the requests and heads in it: each answer with the request before it.

Pure; any thread.
"""

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass

from api.conformance.captures.framing import status_lines
from api.conformance.captures.json_text import parsed
from api.conformance.captures.requests import asked_stops, find_command, stops_of_body
from api.conformance.captures.text_lines import line_start, next_line

_VERSION = re.compile(r"HTTP/[\d.]")
_LONGEST_COMMAND = 256 * 1024
_LONGEST_REQUEST = 8 * 1024
_REQUEST = re.compile(r"(?:POST|GET|PUT|HEAD|OPTIONS) \S+ HTTP/[\d.]")
_HEAD_END = re.compile(r"\r?\n\r?\n|\r\r")
_SOMETHING = re.compile(r"[^\s]")


@dataclass(frozen=True, slots=True)
class CapturePart:
    """A part of a text with an answer in it.

    Attributes:
        text: The part.
        stops: The stops of the request before it; None if there is no request.
    """

    text: str
    stops: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Mark:
    """The beginning of a request or an answer.

    Attributes:
        at: Its index.
        status: The status of an answer; None for a request.
    """

    at: int
    status: int | None


def segments(text: str) -> Iterator[CapturePart]:
    """Yield the parts of a text, each with one answer, or with several answers without heads."""
    # curl -v marks each line; a command still comes before its own lines.
    is_marked = line_start(text, "< HTTP/") is not None
    marks = _commands(text) if is_marked else _marks(text)
    begin, stops, head = 0, None, None
    for mark in marks:
        if mark.status is None:
            if head is not None or _has_answer(text, begin, mark.at):
                yield CapturePart(_part(text, begin, mark.at), stops)
            begin, head = mark.at, None
            stops = _stops_of_request(text, mark.at)
            begin = _end_of_request(text, mark.at)
        elif head is None or not _has_body(text, head, mark.at):
            head = mark
        else:
            yield CapturePart(_part(text, begin, mark.at), stops)
            begin, head = mark.at, mark
    yield CapturePart(_part(text, begin, len(text)), stops)


def _part(text: str, begin: int, end: int) -> str:
    return text if begin == 0 and end == len(text) else text[begin:end]


def _marks(text: str) -> Iterator[_Mark]:
    # Yielded one at a time, because a text may have millions of them.
    return heapq.merge(_heads(text), _commands(text), _requests(text), key=lambda mark: mark.at)


def _heads(text: str) -> Iterator[_Mark]:
    for found in status_lines(text):
        yield _Mark(found.start(), int(found[1]))


def _commands(text: str) -> Iterator[_Mark]:
    at = find_command(text)
    while at is not None:
        yield _Mark(max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1, None)
        at = find_command(text, at + 1)


def _requests(text: str) -> Iterator[_Mark]:
    for found in _VERSION.finditer(text):
        near = max(0, found.start() - _LONGEST_REQUEST)
        line = max(text.rfind("\n", near, found.start()), text.rfind("\r", near, found.start())) + 1
        if _REQUEST.match(text, line):
            yield _Mark(line, None)


def _has_body(text: str, head: _Mark, end: int) -> bool:
    """Whether an answer follows a head; heads without one belong to the head after them."""
    assert head.status is not None
    if head.status < 200 or 300 <= head.status < 400:
        return False
    found = _HEAD_END.search(text, head.at, end)
    return found is not None and _SOMETHING.search(text, found.end(), end) is not None


def _has_answer(text: str, begin: int, end: int) -> bool:
    """Whether a part without a head has something that may be an answer."""
    return re.search(r"(?m)^(?:data:|event:|[{\[])", text[begin:end]) is not None


def _stops_of_request(text: str, at: int) -> tuple[str, ...]:
    if not _REQUEST.match(text, at):
        return asked_stops(text[at : at + _LONGEST_COMMAND])
    first = _first_of_body(text, at)
    if first is None:
        return ()
    try:
        value = parsed(text[first : _end_of_request(text, at)])
    except ValueError:
        return ()
    return stops_of_body(value)


def _first_of_body(text: str, at: int) -> int | None:
    """Return where the JSON of a written-out request begins."""
    found = _HEAD_END.search(text, at)
    if found is None or not (body := _SOMETHING.search(text, found.end())):
        return None
    return body.start() if text[body.start()] in "{[" else None


def _end_of_request(text: str, at: int) -> int:
    """Return where an answer may begin: after a written-out request, or at a command itself."""
    if not _REQUEST.match(text, at):
        return at
    first = _first_of_body(text, at)
    if first is None:
        found = _HEAD_END.search(text, at)
        return len(text) if found is None else found.end()
    answer = next((one.start() for one in status_lines(text, first)), None)
    if answer is not None:
        return answer
    return next_line(text, first)
