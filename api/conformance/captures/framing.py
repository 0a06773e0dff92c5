"""Cuts a saved or pasted answer into HTTP head, request and frames, whatever surrounds them.

Reads server-sent events, NDJSON and single JSON bodies; knows no dialect. Pure; any thread.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from api.conformance.captures.json_text import parsed
from api.conformance.captures.requests import asked_stops

_STATUS = re.compile(r"^HTTP/[\d.]+ (\d{3})")
_HEADER = re.compile(r"^([A-Za-z0-9-]+): ?(.*)$")
# An answer of a million tokens has fewer; each event is an object that costs a kilobyte.
MOST_FRAMES = 200_000
_BODY = re.compile(r"^(?:data:|event:|id:|retry:|:|[{\[])")
# curl -v marks what it says itself, what it sends and what it receives.
_CURL_REMARK = re.compile(r"^(?:\* |> ?|[{}] \[)")


class BodyForm(StrEnum):
    """The form of a body."""

    SSE = "sse"
    NDJSON = "ndjson"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its event name, its data, the data as JSON, and whether it is a stream's mark.

    Attributes:
        name: What the ``event:`` line says.
        raw: The data as it stood.
        value: The data as JSON; None where it is none.
        is_json: Whether the data is JSON.
    """

    name: str | None
    raw: str
    value: Any = None
    is_json: bool = True

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
    # U+2028 and its like are no line ends in a stream: splitlines would tear JSON apart.
    lines = re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))
    stops = asked_stops(lines)
    status, headers, lines = _without_head(lines)
    body = "\n".join(lines).strip()
    if not body:
        return Framed(BodyForm.NONE, (), status, headers, stops)
    try:
        whole = parsed(body)
    except ValueError:
        form, frames = _streamed(lines)
    else:
        form, frames = _of_value(whole, body)
    is_cut = len(frames) > MOST_FRAMES
    return Framed(form, tuple(frames[:MOST_FRAMES]), status, headers, stops, is_cut)


def _of_value(whole: Any, body: str) -> tuple[BodyForm, list[Frame]]:
    if isinstance(whole, list) and whole and all(isinstance(item, dict) for item in whole):
        # Chunks that somebody collected into an array.
        return BodyForm.NDJSON, [
            Frame(None, json.dumps(item), item) for item in whole[: MOST_FRAMES + 1]
        ]
    return BodyForm.JSON, [Frame(None, body, whole)]


def _without_head(lines: list[str]) -> tuple[int | None, dict[str, str], list[str]]:
    """Take off curl's remarks and the heads; of several (redirects, 100) the last counts."""
    if any(line.startswith("< HTTP/") for line in lines):
        lines = [
            re.sub(r"^< ?", "", line) if line.startswith("<") else line
            for line in lines
            if not _CURL_REMARK.match(line)
        ]
    status: int | None = None
    headers: dict[str, str] = {}
    begin = 0
    for index, line in enumerate(lines):
        found = _STATUS.match(line)
        if found:
            status, headers, begin = int(found[1]), {}, index + 1
            for at in range(index + 1, len(lines)):
                field_line = _HEADER.match(lines[at])
                if field_line is None or _BODY.match(lines[at]):
                    begin = at
                    break
                headers[field_line[1].lower()] = field_line[2].strip()
                begin = at + 1
    rest = lines[begin:]
    # A prompt, a command line or curl's progress may stand before the body.
    first = next((n for n, line in enumerate(rest) if _BODY.match(line.lstrip())), 0)
    return status, headers, rest[first:]


def _streamed(lines: Sequence[str]) -> tuple[BodyForm, list[Frame]]:
    if any(line.startswith("data:") for line in lines):
        return BodyForm.SSE, _sse_frames(lines)
    spoken = (line for line in lines if line.strip())
    frames = [_frame(None, line) for line in islice(spoken, MOST_FRAMES + 1)]
    is_stream = sum(frame.is_json for frame in frames) > 0
    if is_stream:
        return BodyForm.NDJSON, frames
    return BodyForm.JSON, [_frame(None, "\n".join(lines).strip())]


def _sse_frames(lines: Sequence[str]) -> list[Frame]:
    frames: list[Frame] = []
    name: str | None = None
    data: list[str] = []
    for line in chain(lines, [""]):
        if len(frames) > MOST_FRAMES:
            break
        if not line.strip():
            if data:
                frames.extend(_frames_of(name, data))
            name, data = None, []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("event:"):
            if data:  # pasted without its blank lines
                frames.extend(_frames_of(name, data))
                data = []
            name = line[6:].strip()
        elif not line.startswith((":", "id:", "retry:")):
            frames.append(_frame(None, line))
    return frames


def _frames_of(name: str | None, data: list[str]) -> list[Frame]:
    whole = _frame(name, "\n".join(data))
    if len(data) > 1 and not whole.is_json:
        # Blank lines get lost when a stream is pasted: each line is a frame of its own then.
        return [_frame(name, one) for one in data]
    return [whole]


def _frame(name: str | None, raw: str) -> Frame:
    try:
        return Frame(name, raw, parsed(raw))
    except ValueError:
        return Frame(name, raw, None, is_json=False)
