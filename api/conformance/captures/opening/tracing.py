"""Reassembles requests and answers from ``curl --trace-ascii`` and ``curl --trace``.

https://curl.se/docs/manpage.html#--trace-ascii. Pure; any thread.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from api.conformance.captures.opening.content import from_utf8
from api.conformance.captures.text_lines import lines_of
from api.conformance.captures.values import Decode, Finding, Severity, as_it_stands

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
    """A reassembled trace.

    Attributes:
        text: Requests and answers, one after the other, as they were sent.
        decode: Converts pieces of it to text.
        notes: Findings about bytes that the trace does not contain.
    """

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
