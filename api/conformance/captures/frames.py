"""Takes the bytes of an answer apart: lines, events of a stream, JSON and what is left of it.

Pure; any thread.
"""

import json
import json.scanner
import re
import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from api.conformance.captures.values import Finding

# Iterates over the lines of a very large text without a list of them.

_TEXT_LINES_BREAK = re.compile(r"\r\n|\n|\r")
_TEXT_LINES_SPACE = re.compile(r"\s*+")


def line_start(text: str, word: str, begin: int = 0) -> int | None:
    """Return the index of the next line that begins with a word; None if there is none."""
    at = text.find(word, begin)
    while at > 0 and text[at - 1] not in "\r\n":
        at = text.find(word, at + 1)
    return at if at >= 0 else None


def lines_of(text: str, begin: int = 0) -> Iterator[str]:
    """Yield the lines from an index on, without their line ends."""
    # U+2028 and similar characters are not line ends in a stream; splitlines would split JSON.
    for match in _TEXT_LINES_BREAK.finditer(text, begin):
        yield text[begin : match.start()]
        begin = match.end()
    yield text[begin:]


def next_line(text: str, at: int) -> int:
    """Return the index of the line after the one at an index."""
    match = _TEXT_LINES_BREAK.search(text, at)
    return len(text) if match is None else match.end()


def after_space(text: str, at: int) -> int:
    """Return the end of the white space at an index."""
    match = _TEXT_LINES_SPACE.match(text, at)
    return at if match is None else match.end()


# Parses JSON texts of foreign programs, and refuses those that nest too deeply.
#
# It also refuses texts of millions of values, which take many times their size in memory.

# No API's answer nests this deep, and code that walks the value must not run out of stack.
_MOST_LEVELS = 100
# Some 150 MB.
_MOST_HOLDERS = 500_000
_MOST_VALUES = 2_000_000
# Python's own parser, which blocks all threads, parses this within milliseconds.
_SHORT_CHARS = 256 * 1024
_SHORT_DECODER = json.JSONDecoder()
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_JSON_TEXT_SPACE = re.compile(r"[ \t\n\r]*+")


def has_too_many_values(text: str) -> bool:
    """Whether a text has so many brackets or commas that its values must not be kept."""
    if len(text) < _MOST_HOLDERS:
        return False
    holders = text.count("[") + text.count("{")
    return holders > _MOST_HOLDERS or text.count(",") > _MOST_VALUES


def parsed(text: str) -> Any:
    """Return the value of a JSON text; parse a long one in steps that let other threads run.

    Raises:
        ValueError: It is not JSON, nests too deeply, has a number of thousands of digits, or
            millions of values.
    """
    if has_too_many_values(text):
        raise ValueError("it has too many values")
    try:
        value = _decoder(text).decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check_levels(value, text.count("[") + text.count("{"))
    return value


def objects_of(text: str, first: int, *, is_alone: bool = True) -> Iterator[str]:
    """Yield the objects of an array in a text, one by one."""
    at, mark = first, ","
    if not is_alone and text.startswith("]", _after_space(text, first + 1)):
        return
    while mark == ",":
        at = _after_space(text, at + 1)
        end = end_of_object(text, at)
        yield text[at:end]
        at = _after_space(text, end)
        mark = text[at : at + 1]
    if mark != "]" or (is_alone and _after_space(text, at + 1) < len(text)):
        raise ValueError("it is not an array of objects")


def end_of_object(text: str, begin: int) -> int:
    """Return where the object ends that begins at an index.

    Raises:
        ValueError: There is none, or it has too many values.
    """
    level = 0
    if text.startswith("{", begin):
        for count, match in enumerate(_MARK.finditer(text, begin)):
            if match[0] in ("{", "["):
                level += 1
            elif match[0] in ("}", "]"):
                level -= 1
            if level == 0:
                return match.end()
            if count > _MOST_VALUES:
                break
    raise ValueError("it is not an object, or has too many values")


def _after_space(text: str, at: int) -> int:
    match = _JSON_TEXT_SPACE.match(text, at)
    return at if match is None else match.end()


def _decoder(text: str) -> Any:
    if len(text) <= _SHORT_CHARS:
        return _SHORT_DECODER
    decoder = json.JSONDecoder()
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder


def _check_levels(value: Any, max_levels: int) -> None:
    if max_levels > _MOST_LEVELS and _levels(value) > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")


def _levels(value: Any) -> int:
    """Return how deep a value nests, without recursion."""
    level, inner = 0, [value]
    while inner:
        holders = [one for one in inner if isinstance(one, dict | list)]
        inner = []
        for holder in holders:
            inner.extend(holder.values() if isinstance(holder, dict) else holder)
        level += bool(holders)
        if level > _MOST_LEVELS:
            break
    return level


# Finds the stops of a request in a curl command that was pasted together with the answer.

# Only this much is read, because words are read letter by letter; requests are much shorter.
_COMMAND_CHARS = 256 * 1024
_LONGEST_PROMPT = 100
_REQUESTS_BREAK = re.compile(r"\r\n|\r")
# A shell's prompt may precede a command.
_PROMPT = re.compile(r"(?:.{0,80}[$#%>] )?[$ %>]*")
# The paths of the stops in the APIs' bodies.
_HOLDERS = ("options", "sampling_params")
_NAMES = ("stop_sequences", "stop")
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")


def asked_stops(text: str) -> tuple[str, ...]:
    """Return the stops that a curl command in a text asks for; () if there is no command."""
    begin = find_command(text)
    if begin is None:
        return ()
    return _stops_of_command(_REQUESTS_BREAK.sub("\n", text[begin : begin + _COMMAND_CHARS]))


def find_command(text: str, begin: int = 0) -> int | None:
    """Return the index of ``curl`` in the next line that begins with a curl command."""
    at = text.find("curl ", begin)
    while at >= 0:
        line = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
        if at - line < _LONGEST_PROMPT and _PROMPT.fullmatch(text, line, at):
            return at
        at = text.find("curl ", at + 1)
    return None


def stops_of_body(body: Any) -> tuple[str, ...]:
    """Return the stop strings of a request's body in any dialect."""
    if not isinstance(body, dict):
        return ()
    for holder in (body, *(body.get(name) for name in _HOLDERS)):
        if isinstance(holder, dict):
            for name in _NAMES:
                value = holder.get(name)
                if isinstance(value, str):
                    return (value,)
                if isinstance(value, list):
                    return tuple(item for item in value if isinstance(item, str))
    return ()


def _stops_of_command(text: str) -> tuple[str, ...]:
    reader = shlex.shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    reader.commenters = ""
    words: list[str] = []
    try:
        # The answer follows the command, so words are read one by one, up to the body.
        for word in reader:
            if words and words[-1] in _DATA_OPTIONS:
                return stops_of_body(parsed(word))
            words.append(word)
    except ValueError:
        return ()
    return ()


# Splits a saved or pasted answer into HTTP head, request and frames, and drops other text.
#
# Reads server-sent events, NDJSON and single JSON bodies; knows no dialect.
#
# The text may have tens of megabytes, with millions of lines or JSON values. It is read line by
# line, and the values of its frames are parsed again for each use, unless there are few.

_BLANK = " \t\r\n"
_VERSION = re.compile(r"HTTP/[\d.]{1,4} (\d{3})")
_HEADER = re.compile(r"^([A-Za-z0-9-]+): ?(.*)$")
_MOST_HEADERS = 1_000
# An answer of a million tokens has fewer.
MOST_FRAMES = 200_000
# Longer captures do not keep the parsed values of their frames.
_MOST_KEPT_CHARS = 8 * 1024 * 1024
_BODY = re.compile(r"data:|event:|id:|retry:|:|[{\[]")
_BODY_LINE = re.compile(r"(?:^|(?<=\r))[ \t]*(?:data:|event:|id:|retry:|:|[{\[])", re.MULTILINE)
# curl -v marks its own remarks, the sent lines and the received lines.
_CURL_REMARK = re.compile(r"^(?:\* |> ?|[{}] \[)")
_LINES_AT_ONCE = 10_000
# What a person pastes, and not a program's recording; other values in it are an answer's, too.
_PASTED_CHARS = 1024 * 1024
_MORE_JSON = re.compile(r"^(?:\{|\[|data:|event:)", re.MULTILINE)


class BodyForm(StrEnum):
    """The form of a body."""

    SSE = "sse"
    NDJSON = "ndjson"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its event name, its data, and whether the data is JSON."""

    name: str | None
    raw: str
    is_json: bool = True
    kept: Any = None

    @property
    def value(self) -> Any:
        """The parsed data; None if it is not JSON."""
        if self.kept is not None or not self.is_json:
            return self.kept
        return parsed(self.raw)

    @property
    def is_done_mark(self) -> bool:
        """Whether this is ``[DONE]``."""
        return self.raw.strip() == "[DONE]"


@dataclass(frozen=True, slots=True)
class Framed:
    """A captured answer, split into its parts."""

    form: BodyForm
    frames: tuple[Frame, ...] = ()
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stops: tuple[str, ...] = ()
    is_cut: bool = False
    is_dump: bool = False
    label: str = ""
    notes: tuple[Finding, ...] = ()


def framed(text: str) -> Framed:
    """Return the parts of a captured answer; nothing is an error here."""
    text = text.removeprefix("\ufeff")
    stops = asked_stops(text)
    if line_start(text, "< HTTP/") is not None:
        text = _without_remarks(text)
    status, headers, begin = _head(text)
    begin = _beginning_of_body(text, begin)
    first = after_space(text, begin)
    if first == len(text):
        return Framed(BodyForm.NONE, (), status, headers, stops)
    is_small = len(text) <= _MOST_KEPT_CHARS and not has_too_many_values(text)
    reader = _FrameReader(keeps_values=is_small)
    form, frames = reader.whole(text, first) or reader.streamed(text, begin)
    is_cut = len(frames) > MOST_FRAMES
    return Framed(form, tuple(frames[:MOST_FRAMES]), status, headers, stops, is_cut)


def status_lines(text: str, begin: int = 0) -> Iterator[re.Match[str]]:
    """Yield the status lines of HTTP answers, each with its status as group 1."""
    for match in _VERSION.finditer(text, begin):
        if match.start() == 0 or text[match.start() - 1] in "\r\n":
            yield match


class _FrameReader:
    """Splits one text into frames."""

    def __init__(self, *, keeps_values: bool) -> None:
        self._keeps_values = keeps_values

    def whole(self, text: str, first: int) -> tuple[BodyForm, list[Frame]] | None:
        """Return the frames of a body that is one JSON value; None if it is not."""
        if text.startswith(("data:", "event:", ":", "id:", "retry:"), first):
            return None
        if text[first] == "[" and (frames := self._collected(text, first)):
            return BodyForm.NDJSON, frames
        if text[first] not in '{["':
            return None
        body = text[first:].rstrip(_BLANK)
        try:
            return BodyForm.JSON, [Frame(None, body, kept=parsed(body))]
        except ValueError:
            return self._before_other_text(body)

    def _before_other_text(self, body: str) -> tuple[BodyForm, list[Frame]] | None:
        """Return the frame of a value that a prompt, or other words, follow; None if it is none."""
        if _MORE_JSON.search(body[:_PASTED_CHARS], 1) or len(body) > _PASTED_CHARS:
            return None
        try:
            end = end_of_object(body, 0)
            return BodyForm.JSON, [Frame(None, body[:end], kept=parsed(body[:end]))]
        except ValueError:
            return None

    def _collected(self, text: str, first: int) -> list[Frame]:
        """Return the frames of chunks that were collected into an array; [] if it is none."""
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
        """Return the frames of a stream in any format."""
        if line_start(text, "data:", begin) is not None:
            return BodyForm.SSE, self._events(lines_of(text, begin))
        spoken = (line for line in lines_of(text, begin) if line.strip())
        frames = [self._frame(None, line) for line in islice(spoken, MOST_FRAMES + 1)]
        if any(frame.is_json for frame in frames):
            return BodyForm.NDJSON, frames
        body = text[begin:].replace("\r\n", "\n").replace("\r", "\n").strip(_BLANK)
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
            elif line.lstrip(_BLANK).startswith(("{", "[", "<")):
                # Other lines are fields that clients ignore, or comments of the person who pasted
                # them.
                frames.append(self._frame(None, line))
        if len(data) > MOST_FRAMES:
            frames.extend(self._frames_of(name, data))
        return frames

    def _frames_of(self, name: str | None, data: list[str]) -> list[Frame]:
        whole = self._frame(name, "\n".join(data))
        if len(data) > 1 and not whole.is_json:
            # A pasted stream may lack its blank lines; each line is then a separate frame.
            return [self._frame(name, item) for item in data]
        return [whole]

    def _frame(self, name: str | None, raw: str) -> Frame:
        try:
            value = parsed(raw)
        except ValueError:
            return Frame(name, raw, is_json=False)
        return Frame(name, raw, kept=value if self._keeps_values else None)


def _without_remarks(text: str) -> str:
    """Return the received text, without curl's remarks and line marks."""
    kept = (
        re.sub(r"^< ?", "", line) if line.startswith("<") else line
        for line in lines_of(text)
        if not _CURL_REMARK.match(line)
    )
    pieces: list[str] = []
    while some := list(islice(kept, _LINES_AT_ONCE)):
        pieces.append("\n".join(some))
    return "\n".join(pieces)


def _head(text: str) -> tuple[int | None, dict[str, str], int]:
    """Return the status, the headers and their end; of several heads (redirects, 100) the last."""
    last = deque(status_lines(text), maxlen=1)
    if not last:
        return None, {}, 0
    headers: dict[str, str] = {}
    begin = next_line(text, last[0].end())
    for line in islice(lines_of(text, begin), _MOST_HEADERS):
        match = _HEADER.match(line)
        if match is None or _BODY.match(line):
            break
        headers[match[1].lower()] = match[2].strip()
        begin = next_line(text, begin)
    return int(last[0][1]), headers, begin


def _beginning_of_body(text: str, begin: int) -> int:
    """Return where the first line of a body begins.

    A prompt, a command line or curl's progress may precede it. Returns ``begin`` if no line looks
    like a body.
    """
    match = _BODY_LINE.search(text, begin)
    return begin if match is None else match.start()
