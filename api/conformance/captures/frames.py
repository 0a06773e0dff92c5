"""Splits the text of an answer into HTTP head, request and frames; drops other text.

Reads server-sent events, NDJSON and single JSON bodies in any dialect. Pure; any thread.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from api.conformance.captures.values import Finding

# No API's answer nests deeper, and code that walks the value must not exhaust the stack.
_MAX_DEPTH = 100
STATUS_LINE = re.compile(r"(?m)^HTTP/[\d.]{1,4} (\d{3})")
# A shell's prompt may precede the command.
COMMAND_LINE = re.compile(r"(?m)^(?:.{0,80}[$#%>] )?[$ %>]*(?=curl )")
_LINE_END = re.compile(r"\r\n|\r")
_HEADER = re.compile(r"([A-Za-z0-9-]+): ?(.*)(?:\n|\Z)")
_BODY_LINE = re.compile(r"(?m)^[ \t]*(?:data:|event:|id:|retry:|:|[{\[])")
_MORE_JSON = re.compile(r"(?m)^(?:\{|\[|data:|event:)")
# curl -v marks its own remarks and the lines sent.
_CURL_REMARK = re.compile(r"\* |> ?|[{}] \[")
# As browsers copy requests whose body has a quote: a text in ANSI-C quotes after an option.
_ANSI_TEXT = re.compile(r"(?<= )\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ANSI_CHARS = {"n": "\n", "r": "\r", "t": "\t"}
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")


class BodyForm(StrEnum):
    """The form of a body."""

    SSE = "sse"
    NDJSON = "ndjson"
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event or line: its name, its data, and the parsed data if it is JSON."""

    name: str | None
    raw: str
    is_json: bool = True
    value: Any = None

    @property
    def is_done_mark(self) -> bool:
        return self.raw.strip() == "[DONE]"


@dataclass(frozen=True, slots=True)
class Framed:
    """A saved answer, split into its parts; ``is_dump`` marks JSON lines that a program logged."""

    form: BodyForm
    frames: tuple[Frame, ...] = ()
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stops: tuple[str, ...] = ()
    is_truncated: bool = False
    is_dump: bool = False
    label: str = ""
    notes: tuple[Finding, ...] = ()


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is not JSON, nests too deeply, or has a number of thousands of digits.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if text.count("[") + text.count("{") > _MAX_DEPTH and _depth(value) > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    return value


def parse_object(text: str) -> dict[str, Any]:
    """Return the object of a JSON text; an empty one if it is anything else."""
    try:
        return mapping(parse_json(text))
    except ValueError:
        return {}


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the items of a list; an empty object for each that is no object."""
    return [mapping(item) for item in items(value)]


def count(value: Any) -> int | None:
    """Return the value if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def normalize_line_ends(text: str) -> str:
    """Return the text with line feeds alone; str.splitlines would also split JSON at U+2028."""
    return _LINE_END.sub("\n", text.removeprefix("\ufeff"))


def split_frames(text: str) -> Framed:
    """Return the parts of a saved answer; nothing is an error here."""
    text = normalize_line_ends(text)
    stops = command_stops(text)
    if re.search(r"(?m)^< HTTP/", text):
        lines = (line for line in text.split("\n") if not _CURL_REMARK.match(line))
        text = "\n".join(re.sub(r"^< ?", "", line) for line in lines)
    status, headers, body = _split_head(text)
    begin = _BODY_LINE.search(body)
    form, frames = _split_body(body if begin is None else body[begin.start() :])
    return Framed(form, tuple(frames), status, headers, stops)


def command_stops(text: str) -> tuple[str, ...]:
    """Return the stops of the request in the first curl command; () if there is no command."""
    found = COMMAND_LINE.search(text)
    if found is None:
        return ()
    # Requests are shorter, and shlex reads character by character.
    command = _ANSI_TEXT.sub(_plain_quotes, text[found.end() :][: 256 * 1024])
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    option = ""
    try:
        # The answer follows the command, so reading ends at the body.
        for word in lexer:
            if option in _DATA_OPTIONS:
                return body_stops(parse_json(word))
            option = word
    except ValueError:
        pass
    return ()


def _plain_quotes(quoted: re.Match[str]) -> str:
    """Return a text in ANSI-C quotes as the same text in quotes that every shell reads."""

    def unescape(escape: re.Match[str]) -> str:
        if (digits := escape[1] or escape[2]) is not None:
            return chr(int(digits, 16))
        return _ANSI_CHARS.get(escape[3], escape[3])

    text = _ANSI_ESCAPE.sub(unescape, quoted[1])
    # Browsers write each half of a surrogate pair.
    return shlex.quote(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def body_stops(body: Any) -> tuple[str, ...]:
    """Return the stop strings of a request's body in any dialect."""
    body = mapping(body)
    for holder in (body, mapping(body.get("options")), mapping(body.get("sampling_params"))):
        for name in ("stop_sequences", "stop"):
            value = holder.get(name)
            if isinstance(value, str | list):
                listed = [value] if isinstance(value, str) else value
                return tuple(item for item in listed if isinstance(item, str))
    return ()


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        holders = [item.values() if isinstance(item, dict) else item for item in level
                   if isinstance(item, dict | list)]  # fmt: skip
        level = [item for holder in holders for item in holder]
    return depth


def _split_head(text: str) -> tuple[int | None, dict[str, str], str]:
    """Return the status, headers and body after the last head; redirects and 100 have heads too."""
    heads = list(STATUS_LINE.finditer(text))
    if not heads:
        return None, {}, text
    last = heads[-1]
    headers: dict[str, str] = {}
    begin = last.end() + len(text[last.end() :].partition("\n")[0]) + 1
    while (match := _HEADER.match(text, begin)) and not _BODY_LINE.match(text, begin):
        headers[match[1].lower()] = match[2].strip()
        begin = match.end()
    return int(last[1]), headers, text[begin:]


def _split_body(body: str) -> tuple[BodyForm, list[Frame]]:
    text = body.strip()
    if not text:
        return BodyForm.NONE, []
    if text[0] in '{["' and (whole := _whole_value(text)):
        return whole
    lines = body.split("\n")
    if any(line.startswith("data:") for line in lines):
        return BodyForm.SSE, list(_events(lines))
    frames = [_frame(None, line) for line in lines if line.strip()]
    if any(frame.is_json for frame in frames):
        return BodyForm.NDJSON, frames
    return BodyForm.JSON, [_frame(None, text)]


def _whole_value(text: str) -> tuple[BodyForm, list[Frame]] | None:
    """Return the frames of a body that is one JSON value, or begins with the only one."""
    frame = _frame(None, text)
    if not frame.is_json:
        try:
            end = json.JSONDecoder().raw_decode(text)[1]
        except (ValueError, RecursionError):
            return None
        if _MORE_JSON.search(text, 1):
            return None
        return BodyForm.JSON, [_frame(None, text[:end])]
    collected = items(frame.value)
    if collected and all(isinstance(item, dict) for item in collected):
        return BodyForm.NDJSON, [Frame(None, json.dumps(item), value=item) for item in collected]
    return BodyForm.JSON, [frame]


def _events(lines: list[str]) -> Iterator[Frame]:
    name: str | None = None
    data: list[str] = []
    for line in (*lines, ""):
        if not line.strip():
            yield from _joined(name, data)
            name, data = None, []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("event:"):
            # Pasted streams may lack their blank lines.
            yield from _joined(name, data)
            name, data = line[6:].strip(), []
        elif line.lstrip().startswith(("{", "[", "<")):
            yield _frame(None, line)


def _joined(name: str | None, data: list[str]) -> list[Frame]:
    whole = _frame(name, "\n".join(data))
    if len(data) > 1 and not whole.is_json:
        return [_frame(name, line) for line in data]
    return [whole] if data else []


def _frame(name: str | None, raw: str) -> Frame:
    try:
        return Frame(name, raw, value=parse_json(raw))
    except ValueError:
        return Frame(name, raw, is_json=False)
