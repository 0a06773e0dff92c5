"""Takes the transcript of a command apart, such as curl's, into requests and answers.

Pure; any thread.
"""

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from api.conformance.captures.framing import (
    asked_stops,
    find_command,
    line_start,
    lines_of,
    next_line,
    parsed,
    status_lines,
    stops_of_body,
)
from api.conformance.captures.recordings import from_utf8
from api.conformance.captures.values import Decode, Finding, Severity, as_it_stands

# Splits a text at the requests and heads in it: each answer with the request before it.

_VERSION = re.compile(r"HTTP/[\d.]")
_LONGEST_COMMAND = 256 * 1024
_LONGEST_REQUEST = 8 * 1024
_REQUEST = re.compile(r"(?:POST|GET|PUT|HEAD|OPTIONS) \S+ HTTP/[\d.]")
_HEAD_END = re.compile(r"\r?\n\r?\n|\r\r")
_SOMETHING = re.compile(r"[^\s]")


@dataclass(frozen=True, slots=True)
class CapturePart:
    """A part of a text with an answer in it."""

    text: str
    stops: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Mark:
    """The beginning of a request or an answer."""

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


# Reassembles requests and answers from ``curl --trace-ascii`` and ``curl --trace``.
#
# https://curl.se/docs/manpage.html#--trace-ascii.

# A time and a connection number may precede the arrow.
_SECTION = re.compile(
    r"(?:\d\d:\d\d:\d\d\.\d+ )?(?:\[[\d\-]+\] )?"
    r"(=>|<=|==) (Send header|Send data|Recv header|Recv data|Send SSL data|Recv SSL data|Info)"
    r"(?:, (\d+) bytes)?"
)
_ROW = re.compile(r"([0-9a-f]{4,8}): (.*)")
_HEX_ROW = re.compile(r"((?:[0-9a-f]{2} ){1,16}) *.{0,17}$")
_BEGINNING_CHARS = 256 * 1024
_CHUNK = re.compile(r"([0-9a-fA-F]{1,8})(?:;[^\r\n]*)?\r\n")
# Line breaks are written as dots. Outside of strings, a dot is a line break unless it is in a
# number or a name.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|\.+')
_AFTER_BREAK = re.compile(r'\s*(?:data:|event:|id:|retry:|:|[{}\[\]"]|-?\d|true|false|null|\Z)')

_LOSS = Finding(
    "lossy_capture",
    Severity.NOTE,
    "curl --trace-ascii writes a dot for each byte that is not a printable ASCII character, so "
    "findings about the text may be wrong. curl --trace writes every byte.",
)


@dataclass(slots=True)
class _Section:
    """One block of a trace: bytes that were sent or received, in rows."""

    kind: str
    size: int
    rows: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Traced:
    """A reassembled trace."""

    text: str
    decode: Decode
    notes: tuple[Finding, ...]


def traced(text: str) -> Traced | None:
    """Return a reassembled trace; None if a text is not a trace."""
    beginning = text[:_BEGINNING_CHARS]
    if not any(_SECTION.match(line) for line in lines_of(beginning)) or not re.search(
        r"(?m)^0000: ", beginning
    ):
        return None
    is_hex = False
    pieces: list[str] = []
    body: list[str] = []
    is_chunked = False
    for section in _sections(text):
        content, hexed = _content(section)
        is_hex |= hexed
        if section.kind.endswith("data"):
            body.append(content)
            continue
        if body:
            pieces.append(_body(body, is_chunked=is_chunked, is_hex=is_hex) + "\n")
            body, is_chunked = [], False
        is_chunked |= "transfer-encoding: chunked" in content.lower()
        pieces.append(content)
    pieces.append(_body(body, is_chunked=is_chunked, is_hex=is_hex))
    if is_hex:
        return Traced("".join(pieces), from_utf8, ())
    return Traced("".join(pieces), as_it_stands, (_LOSS,))


def _sections(text: str) -> Iterator[_Section]:
    """Yield the sent and received blocks, without curl's remarks and encrypted data."""
    section: _Section | None = None
    for line in lines_of(text):
        if found := _SECTION.match(line):
            if section is not None:
                yield section
            is_kept = found[2] in ("Send header", "Send data", "Recv header", "Recv data")
            section = _Section(found[2], int(found[3] or 0)) if is_kept else None
        elif section is not None and (row := _ROW.match(line)):
            section.rows.append((int(row[1], 16), row[2]))
    if section is not None:
        yield section


def _content(section: _Section) -> tuple[str, bool]:
    """Return the bytes of a section, one character each, and whether they were in hex."""
    if section.rows and all(_HEX_ROW.match(row) for _, row in section.rows):
        # The column next to it repeats the bytes as characters; the offsets tell how many there
        # are.
        ends = [at for at, _ in section.rows[1:]] + [section.size]
        digits = "".join(
            row[: 3 * (end - at)] for (at, row), end in zip(section.rows, ends, strict=True)
        )
        return bytes.fromhex(digits).decode("latin-1"), True
    pieces: list[str] = []
    at = 0
    for begin, row in section.rows:
        # A row with fewer characters than bytes contained a line break.
        pieces.append("\r\n" * ((begin - at) // 2))
        pieces.append(row)
        at = begin + len(row)
    pieces.append("\r\n" * (max(0, section.size - at) // 2))
    return "".join(pieces), False


def _body(pieces: list[str], *, is_chunked: bool, is_hex: bool) -> str:
    text = _unchunked("".join(pieces)) if is_chunked else "".join(pieces)
    return text if is_hex else _with_breaks(text)


def _unchunked(text: str) -> str:
    """Return the content of chunks, if curl traced the chunks and not only their content."""
    found: list[str] = []
    at = 0
    while chunk := _CHUNK.match(text, at):
        size = int(chunk[1], 16)
        found.append(text[chunk.end() : chunk.end() + size])
        at = chunk.end() + size
        at += 2 * text.startswith("\r\n", at)
        if size == 0:
            break
    return "".join(found) + text[at:]


def _with_breaks(text: str) -> str:
    """Return a text with those dots that were line breaks restored."""

    def restored(found: re.Match[str]) -> str:
        if found[0].startswith('"') or not _AFTER_BREAK.match(text, found.end()):
            return found[0]
        is_number = text[found.start() - 1 : found.start()].isdigit() and len(found[0]) == 1
        follows = text[found.end() : found.end() + 1].isdigit()
        return found[0] if is_number and follows else "\n" * len(found[0])

    return _TOKEN.sub(restored, text)
