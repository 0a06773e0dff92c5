"""Cuts a saved or pasted answer into HTTP head, request and frames, whatever surrounds them.

Reads server-sent events, NDJSON and single JSON bodies; knows no dialect. Pure; any thread.

The text may have tens of megabytes, and as many lines or JSON values: it is read line by line, and
the values of its frames are made anew when they are asked for, unless they are few.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from api.conformance.captures.json_text import has_too_many_values, objects_of, parsed
from api.conformance.captures.requests import asked_stops

_BREAK = re.compile(r"\r\n|\n|\r")
_SPACE = re.compile(r"\s*+")
_STATUS = re.compile(r"(?:\A|(?<=[\r\n]))HTTP/[\d.]+ (\d{3})")
_HEADER = re.compile(r"^([A-Za-z0-9-]+): ?(.*)$")
_MOST_HEADERS = 1_000
# An answer of a million tokens has fewer.
MOST_FRAMES = 200_000
_BODY = re.compile(r"data:|event:|id:|retry:|:|[{\[]")
_DATA = re.compile(r"(?:\A|(?<=[\r\n]))data:")
# curl -v marks what it says itself, what it sends and what it receives.
_RECEIVED = re.compile(r"(?:\A|[\r\n])< HTTP/")
_CURL_REMARK = re.compile(r"^(?:\* |> ?|[{}] \[)")
_LINES_AT_ONCE = 10_000


class BodyForm(StrEnum):
    """The form of a body."""

    SSE = "sse"
    NDJSON = "ndjson"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its event name, its data, and whether that is JSON or a stream's mark.

    Attributes:
        name: What the ``event:`` line says.
        raw: The data as it stood.
        is_json: Whether the data is JSON.
        kept: The data as JSON, where it is kept.
    """

    name: str | None
    raw: str
    is_json: bool = True
    kept: Any = None

    @property
    def value(self) -> Any:
        """The data as JSON; None where it is not JSON."""
        if self.kept is not None or not self.is_json:
            return self.kept
        return parsed(self.raw)

    @property
    def is_done_mark(self) -> bool:
        """Whether this is ``[DONE]``."""
        return self.raw.strip() == "[DONE]"


@dataclass(frozen=True, slots=True)
class Framed:
    """A captured answer, cut up.

    Attributes:
        form: The body's form.
        frames: Its frames.
        status: The HTTP status.
        headers: The HTTP headers, names in lower case.
        stops: The stops of the request, where its curl line was captured too.
        is_cut: Whether there are more frames than are read.
    """

    form: BodyForm
    frames: tuple[Frame, ...] = ()
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stops: tuple[str, ...] = ()
    is_cut: bool = False


def framed(text: str) -> Framed:
    """Return the parts of a captured answer; nothing is an error here."""
    text = text.removeprefix("\ufeff")
    stops = asked_stops(text)
    if _RECEIVED.search(text):
        text = _without_remarks(text)
    status, headers, begin = _head(text)
    begin = _beginning_of_body(text, begin)
    first = _after_space(text, begin)
    if first == len(text):
        return Framed(BodyForm.NONE, (), status, headers, stops)
    reader = _FrameReader(keeps_values=not has_too_many_values(text))
    form, frames = reader.whole(text, first) or reader.streamed(text, begin)
    is_cut = len(frames) > MOST_FRAMES
    return Framed(form, tuple(frames[:MOST_FRAMES]), status, headers, stops, is_cut)


class _FrameReader:
    """Makes the frames of one text.

    Args:
        keeps_values: Whether frames keep their values: there are few of them.
    """

    def __init__(self, *, keeps_values: bool) -> None:
        self._keeps_values = keeps_values

    def whole(self, text: str, first: int) -> tuple[BodyForm, list[Frame]] | None:
        """Return the frames of a body that is one JSON value; None where it is not.

        Args:
            text: The capture.
            first: Where its body begins.
        """
        if text.startswith(("data:", "event:", ":", "id:", "retry:"), first):
            return None
        if text[first] == "[" and (frames := self._collected(text, first)):
            return BodyForm.NDJSON, frames
        body = text[first:].rstrip()
        try:
            return BodyForm.JSON, [Frame(None, body, kept=parsed(body))]
        except ValueError:
            return None

    def _collected(self, text: str, first: int) -> list[Frame]:
        """Return the frames of chunks that somebody collected into an array; [] if it is none."""
        frames: list[Frame] = []
        try:
            for raw in islice(objects_of(text, first), MOST_FRAMES + 1):
                item = parsed(raw)
                kept = item if self._keeps_values else None
                frames.append(Frame(None, json.dumps(item), kept=kept))
        except ValueError:
            return []
        return frames

    def streamed(self, text: str, begin: int) -> tuple[BodyForm, list[Frame]]:
        """Return the frames of a stream, of whichever form.

        Args:
            text: The capture.
            begin: Where the first line of its body begins.
        """
        if _DATA.search(text, begin):
            return BodyForm.SSE, self._events(_lines(text, begin))
        spoken = (line for line in _lines(text, begin) if line.strip())
        frames = [self._frame(None, line) for line in islice(spoken, MOST_FRAMES + 1)]
        if any(frame.is_json for frame in frames):
            return BodyForm.NDJSON, frames
        body = text[begin:].replace("\r\n", "\n").replace("\r", "\n").strip()
        return BodyForm.JSON, [self._frame(None, body)]

    def _events(self, lines: Iterator[str]) -> list[Frame]:
        frames: list[Frame] = []
        name: str | None = None
        data: list[str] = []
        for line in chain(lines, [""]):
            if len(frames) > MOST_FRAMES or len(data) > MOST_FRAMES:
                break
            if not line.strip():
                if data:
                    frames.extend(self._frames_of(name, data))
                name, data = None, []
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif line.startswith("event:"):
                if data:  # pasted without its blank lines
                    frames.extend(self._frames_of(name, data))
                    data = []
                name = line[6:].strip()
            elif not line.startswith((":", "id:", "retry:")):
                frames.append(self._frame(None, line))
        if len(data) > MOST_FRAMES:
            frames.extend(self._frames_of(name, data))
        return frames

    def _frames_of(self, name: str | None, data: list[str]) -> list[Frame]:
        whole = self._frame(name, "\n".join(data))
        if len(data) > 1 and not whole.is_json:
            # Blank lines get lost when a stream is pasted: each line is a frame of its own then.
            return [self._frame(name, one) for one in data]
        return [whole]

    def _frame(self, name: str | None, raw: str) -> Frame:
        try:
            value = parsed(raw)
        except ValueError:
            return Frame(name, raw, is_json=False)
        return Frame(name, raw, kept=value if self._keeps_values else None)


def _lines(text: str, begin: int = 0) -> Iterator[str]:
    # U+2028 and its like are no line ends in a stream: splitlines would tear JSON apart.
    for found in _BREAK.finditer(text, begin):
        yield text[begin : found.start()]
        begin = found.end()
    yield text[begin:]


def _without_remarks(text: str) -> str:
    """Return what was received, without curl's remarks and the marks of its own."""
    kept = (
        re.sub(r"^< ?", "", line) if line.startswith("<") else line
        for line in _lines(text)
        if not _CURL_REMARK.match(line)
    )
    pieces: list[str] = []
    while some := list(islice(kept, _LINES_AT_ONCE)):
        pieces.append("\n".join(some))
    return "\n".join(pieces)


def _head(text: str) -> tuple[int | None, dict[str, str], int]:
    """Return status, headers and where they end; of several heads (redirects, 100) the last."""
    last = deque(_STATUS.finditer(text), maxlen=1)
    if not last:
        return None, {}, 0
    headers: dict[str, str] = {}
    begin = _next_line(text, last[0].end())
    for line in islice(_lines(text, begin), _MOST_HEADERS):
        found = _HEADER.match(line)
        if found is None or _BODY.match(line):
            break
        headers[found[1].lower()] = found[2].strip()
        begin = _next_line(text, begin)
    return int(last[0][1]), headers, begin


def _beginning_of_body(text: str, begin: int) -> int:
    """Return where the first line of a body begins.

    A prompt, a command line or curl's progress may stand before it; ``begin`` if nothing is one.
    """
    at = begin
    while (first := _after_space(text, at)) < len(text):
        if _BODY.match(text, first):
            line = max(text.rfind("\n", at, first), text.rfind("\r", at, first)) + 1
            return max(line, at)
        at = _next_line(text, first)
    return begin


def _next_line(text: str, at: int) -> int:
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.end()


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
