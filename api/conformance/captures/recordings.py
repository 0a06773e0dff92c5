"""Reads recordings: HAR files, flows of a proxy, binary event streams, transcripts of commands.

Pure; any thread.
"""

import base64
import binascii
import heapq
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import (
    BodyForm,
    Framed,
    asked_stops,
    find_command,
    framed,
    line_start,
    lines_of,
    next_line,
    objects_of,
    parsed,
    status_lines,
    stops_of_body,
)
from api.conformance.captures.values import Decode, Finding, Severity, as_it_stands

# One request and its answer, from formats that contain both.

_MOST_BODY_BYTES = 64 * 1024 * 1024
# The ends of the paths of models' APIs.
_PATH = re.compile(r"/(?:messages|completions?|responses|generate|api/chat)/?$")
_ASKING = ("messages", "prompt", "input", "text", "input_ids")


@dataclass(frozen=True, slots=True)
class Record:
    """A request and its answer; some programs do not keep why it ended."""

    url: str
    request: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    problem: str = ""
    lacks_reason: bool = False

    @property
    def asks_a_model(self) -> bool:
        """Whether a model answers this request; archives of web pages contain many others."""
        if _PATH.search(self.url.partition("?")[0]):
            return True
        asked = _value(self.request)
        return isinstance(asked, dict) and any(name in asked for name in _ASKING)

    def framed(self, number: int) -> Framed:
        """Return the answer, split into frames; ``number`` is its number among the others."""
        parts = framed(self.body) if self.body.strip() else Framed(BodyForm.NONE)
        notes: tuple[Finding, ...] = ()
        if self.problem:
            sentence = f"The body of the answer was not captured: {self.problem}."
            notes = (Finding("body_missing", Severity.WARNING, sentence),)
        if self.lacks_reason:
            sentence = "The record does not hold why the answer ended."
            notes = (*notes, Finding("details_missing", Severity.NOTE, sentence))
        return replace(
            parts,
            status=self.status,
            headers=dict(self.headers),
            stops=stops_of_body(_value(self.request)),
            is_cut=parts.is_cut or bool(self.problem),
            label=f"{number}: {self.url}",
            notes=notes,
        )


def body_text(content: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a body, and why it is missing."""
    packed = encoding.strip().lower()
    if packed in ("gzip", "x-gzip", "deflate"):
        try:
            # 47: zlib's window size that detects gzip and zlib.
            content = zlib.decompressobj(wbits=47).decompress(content, _MOST_BODY_BYTES)
        except zlib.error:
            return "", f"it is damaged ({packed})"
    elif packed not in ("", "identity"):
        return "", f"it is compressed ({packed[:40]})"
    return content.decode("utf-8", "replace"), ""


def _value(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None


# Dumps of mitmproxy (``mitmdump -w FILE``): a sequence of flows, written as tagged netstrings.
#
# https://docs.mitmproxy.org/stable/concepts/filters/ and https://tnetstrings.info.

_LENGTH = re.compile(rb"(\d{1,10}):")
_MOST_LEVELS = 50
_MOST_VALUES = 2_000_000
_FIRST = re.compile(rb"\d{1,10}:\d{1,4}:[a-z_]+[;,]")


def is_flows(content: bytes) -> bool:
    """Whether bytes begin a dump: with a map whose first key is a word."""
    return _FIRST.match(content) is not None


def records_of_flows(content: bytes) -> Iterator[Record]:
    """Yield the exchanges with models' APIs."""
    reader = _Reader(content)
    at = 0
    while at < len(content):
        flow, at = reader.value(at, len(content))
        if isinstance(flow, dict) and _text(flow.get("type")) in ("http", ""):
            record = _flows_record(flow)
            if record is not None and record.asks_a_model:
                yield record


def _flows_record(flow: Mapping[str, Any]) -> Record | None:
    request = flow.get("request")
    if not isinstance(request, dict):
        return None
    asked, _ = body_text(
        _bytes(request.get("content")), _flows_headers(request).get("content-encoding", "")
    )
    port = request.get("port")
    host = _text(request.get("host"))
    url = f"{_text(request.get('scheme'))}://{host}:{port}{_text(request.get('path'))}"
    response = flow.get("response")
    if not isinstance(response, dict):
        error = flow.get("error")
        why = _text(error.get("msg")) if isinstance(error, dict) else ""
        return Record(url, asked, problem=why or "no answer came")
    headers = _flows_headers(response)
    body, problem = "", "the dump does not hold it"
    if response.get("content") is not None:
        body, problem = body_text(_bytes(response["content"]), headers.get("content-encoding", ""))
    status = response.get("status_code")
    return Record(url, asked, status if isinstance(status, int) else None, headers, body, problem)


def _flows_headers(message: Mapping[str, Any]) -> dict[str, str]:
    pairs = message.get("headers")
    if not isinstance(pairs, list):
        return {}
    return {
        _text(pair[0]).lower(): _text(pair[1])
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2
    }


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


class _Reader:
    """Reads tagged netstrings: a length, a colon, that many bytes, and their type."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._values = 0

    def value(self, at: int, end: int, level: int = 0) -> tuple[Any, int]:
        """Return the value at an index, and the index of the next one."""
        match = _LENGTH.match(self._content, at, end)
        self._values += 1
        if match is None or level > _MOST_LEVELS or self._values > _MOST_VALUES:
            raise ValueError(f"there is no value at byte {at:,}")
        first = match.end()
        last = first + int(match[1])
        if last >= end:
            raise ValueError(f"it breaks off at byte {at:,}")
        match self._content[last : last + 1]:
            case b",":
                value: Any = self._content[first:last]
            case b";":
                value = self._content[first:last].decode("utf-8", "replace")
            case b"#":
                value = _number(self._content[first:last])
            case b"]":
                value = self._list(first, last, level)
            case b"}":
                parts = self._list(first, last, level)
                value = {_text(k): v for k, v in zip(parts[::2], parts[1::2], strict=False)}
            case _:
                # Floats, booleans and null are not needed here.
                value = None
        return value, last + 1

    def _list(self, at: int, end: int, level: int) -> list[Any]:
        values = []
        while at < end:
            value, at = self.value(at, end, level + 1)
            values.append(value)
        return values


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) < 20 else None


# Converts the bytes of a saved file to text: decompresses, decodes, writes out binary formats.

MOST_BYTES = 128 * 1024 * 1024
_SAMPLE_BYTES = 4096


class NotReadable(ValueError):
    """A file cannot be read; the message says why and completes a sentence."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of a file: a text, or the exchanges of its format."""

    text: str = ""
    decode: Decode = as_it_stands
    records: tuple[Record, ...] = ()


def opened(content: bytes, most_bytes: int = MOST_BYTES) -> Opened:
    """Return the content of a file.

    Args:
        content: Its bytes.
        most_bytes: Its largest permitted size once decompressed.

    Raises:
        NotReadable: Its compression is unknown, or it is damaged or too large.
    """
    content = unpacked(content, most_bytes)
    if is_flows(content):
        try:
            return Opened(records=tuple(records_of_flows(content)))
        except ValueError as error:
            raise NotReadable(f"it is a damaged dump of mitmproxy: {error}") from error
    encoding = _wide_encoding(content[:_SAMPLE_BYTES])
    if encoding is not None:
        return Opened(content.decode(encoding, "replace"))
    content = content.removeprefix(b"\xef\xbb\xbf")
    if content.isascii():
        return Opened(content.decode("ascii"))
    return Opened(content.decode("latin-1"), from_utf8)


def from_utf8(piece: str) -> str:
    """Decode a piece of text that has one character for each byte of UTF-8."""
    # Invalid UTF-8 is part of the capture, so it is shown instead of refused.
    return piece if piece.isascii() else piece.encode("latin-1").decode("utf-8", "replace")


def unpacked(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a file's content, decompressed if it is gzip."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    unpacked_bytes = bytearray()
    while content.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            unpacked_bytes += reader.decompress(content, most_bytes + 1 - len(unpacked_bytes))
        except zlib.error as error:
            raise NotReadable("its gzip compression is damaged") from error
        if len(unpacked_bytes) > most_bytes:
            raise NotReadable(f"it is larger than {most_bytes >> 20} MiB once it is decompressed")
        # The part before the end of a truncated file is still read.
        if not reader.eof and not unpacked_bytes:
            raise NotReadable("its gzip compression is damaged")
        content = reader.unused_data
    return bytes(unpacked_bytes)


def _wide_encoding(sample: bytes) -> str | None:
    """Return which UTF-16 encoding a text has; None for neither."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(sample) < 4:
        return None
    # PowerShell and others leave out the byte order mark; in ASCII text every other byte is then
    # zero.
    half = len(sample) // 2
    for encoding, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
        if zeros.count(0) > 0.7 * half and re.search(rb"[^\x00]\x00|\x00[^\x00]", sample):
            return encoding
    return None


# Reads HTTP archives (HAR) of browsers and proxies, one exchange at a time.
#
# http://www.softwareishard.com/blog/har-12-spec/.

_BEGINNING_CHARS = 64 * 1024
_LOG = re.compile(r'\s*\{\s*"log"\s*:\s*\{')
_ENTRIES = re.compile(r'"entries"\s*:\s*(?=\[)')


def entries_of(text: str) -> int | None:
    """Return the index of the list of exchanges; None if a text is not an archive."""
    if not _LOG.match(text):
        return None
    match = _ENTRIES.search(text)
    return None if match is None else match.end()


def records_of_har(text: str, begin: int, decode: Decode) -> Iterator[Record]:
    """Yield the exchanges with models' APIs, read one by one."""
    for raw in objects_of(text, begin, is_alone=False):
        entry = mapping(parsed(decode(raw)))
        record = _har_record(mapping(entry.get("request")), mapping(entry.get("response")))
        if record.asks_a_model:
            yield record


def as_archive(records: Iterable[Record]) -> str:
    """Return exchanges as an archive that ``records_of`` reads back."""
    entries = [
        {
            "request": {"url": record.url, "postData": {"text": record.request}},
            "response": {
                "status": record.status or 0,
                "headers": [{"name": name, "value": text} for name, text in record.headers.items()],
                "content": {} if record.problem else {"text": record.body},
                **({"_error": record.problem} if record.problem else {}),
            },
        }
        for record in records
    ]
    return json.dumps({"log": {"version": "1.2", "entries": entries}}, ensure_ascii=False, indent=1)


def _har_record(request: dict[str, Any], response: dict[str, Any]) -> Record:
    content = mapping(response.get("content"))
    text, problem = content.get("text"), ""
    if not isinstance(text, str):
        text, problem = "", "the archive does not hold it"
        if content.get("size") == 0:
            problem = ""
    elif content.get("encoding") == "base64":
        try:
            text = base64.b64decode(text).decode("utf-8", "replace")
        except binascii.Error:
            text, problem = "", "its base64 is damaged"
    headers = {
        str(item.get("name")).lower(): str(item.get("value"))
        for item in map(mapping, items(response.get("headers")))
    }
    asked = mapping(request.get("postData")).get("text")
    status = response.get("status")
    error = response.get("_error")
    return Record(
        url=str(request.get("url") or ""),
        request=asked if isinstance(asked, str) else "",
        # Browsers write 0 if no answer arrived.
        status=status if isinstance(status, int) and status > 0 else None,
        headers=headers,
        body=text,
        problem=str(error) if isinstance(error, str) and not text else problem,
    )


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
    for match in _VERSION.finditer(text):
        near = max(0, match.start() - _LONGEST_REQUEST)
        line = max(text.rfind("\n", near, match.start()), text.rfind("\r", near, match.start())) + 1
        if _REQUEST.match(text, line):
            yield _Mark(line, None)


def _has_body(text: str, head: _Mark, end: int) -> bool:
    """Whether an answer follows a head; heads without one belong to the head after them."""
    assert head.status is not None
    if head.status < 200 or 300 <= head.status < 400:
        return False
    match = _HEAD_END.search(text, head.at, end)
    return match is not None and _SOMETHING.search(text, match.end(), end) is not None


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
    match = _HEAD_END.search(text, at)
    if match is None or not (body := _SOMETHING.search(text, match.end())):
        return None
    return body.start() if text[body.start()] in "{[" else None


def _end_of_request(text: str, at: int) -> int:
    """Return where an answer may begin: after a written-out request, or at a command itself."""
    if not _REQUEST.match(text, at):
        return at
    first = _first_of_body(text, at)
    if first is None:
        match = _HEAD_END.search(text, at)
        return len(text) if match is None else match.end()
    answer = next((line.start() for line in status_lines(text, first)), None)
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
_TRANSCRIPT_BEGINNING_CHARS = 256 * 1024
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
    beginning = text[:_TRANSCRIPT_BEGINNING_CHARS]
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
        if match := _SECTION.match(line):
            if section is not None:
                yield section
            is_kept = match[2] in ("Send header", "Send data", "Recv header", "Recv data")
            section = _Section(match[2], int(match[3] or 0)) if is_kept else None
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
    parts: list[str] = []
    at = 0
    while chunk := _CHUNK.match(text, at):
        size = int(chunk[1], 16)
        parts.append(text[chunk.end() : chunk.end() + size])
        at = chunk.end() + size
        at += 2 * text.startswith("\r\n", at)
        if size == 0:
            break
    return "".join(parts) + text[at:]


def _with_breaks(text: str) -> str:
    """Return a text with those dots that were line breaks restored."""

    def restored(match: re.Match[str]) -> str:
        if match[0].startswith('"') or not _AFTER_BREAK.match(text, match.end()):
            return match[0]
        is_number = text[match.start() - 1 : match.start()].isdigit() and len(match[0]) == 1
        follows = text[match.end() : match.end() + 1].isdigit()
        return match[0] if is_number and follows else "\n" * len(match[0])

    return _TOKEN.sub(restored, text)
