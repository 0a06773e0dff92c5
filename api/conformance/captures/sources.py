"""Finds the answers in a file or a pasted text, and reads each of them.

Reads a JSON body, server-sent events, NDJSON, the output of ``curl -i`` and ``curl -v``, a request
followed by its answer, and HTTP archives (HAR, http://www.softwareishard.com/blog/har-12-spec/).
Pure; any thread.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from api.conformance.captures.frames import (
    COMMAND_LINE,
    STATUS_LINE,
    BodyForm,
    Frame,
    Framed,
    body_stops,
    command_stops,
    mapping,
    normalize_line_ends,
    objects,
    parse_json,
    split_frames,
)
from api.conformance.captures.recognition import FORMATS, read_framed
from api.conformance.captures.values import Capture, Finding, Severity

# A file is read into memory as a whole.
MAX_BYTES = 32 * 1024 * 1024
_ARCHIVE = re.compile(r'\s*\{\s*"log"\s*:\s*\{')
_ENTRIES = re.compile(r'"entries"\s*:\s*\[\s*')
_SEPARATOR = re.compile(r"\s*,?\s*")
# The ends of the paths of models' APIs.
_API_PATH = re.compile(r"/(?:messages|completions?|responses|generate|api/chat)/?$")
_REQUEST_FIELDS = frozenset({"messages", "prompt", "input", "text", "input_ids"})
_ANSWER_FIELDS = frozenset({"choices", "content", "output", "meta_info", "done", "object", "type"})
_END = re.compile(
    r'"(?:finish_reason|done_reason|stop_reason)"\s*:\s*["{]'
    r'|\[DONE\]|message_stop|"response\.(?:completed|incomplete|failed)"|"done"\s*:\s*true|"error"'
)
_DONE = re.compile(r'"done"\s*:\s*true')
_REQUEST_LINE = re.compile(r"(?m)^POST \S+ HTTP/")
_OBJECT = re.compile(r"(?m)^\{")
_FIRST_EVENTS = ("message_start", "response.created")


def decode(content: bytes) -> str:
    """Return the text of a file; invalid UTF-8 is part of the capture, and is replaced.

    Raises:
        ValueError: It is compressed or binary, or text of another encoding than UTF-8.
    """
    if b"\0" in content[:4096] or content.startswith(b"\x1f\x8b"):
        raise ValueError(f"it is not UTF-8 text, but compressed or binary. Supported are {FORMATS}")
    return content.decode("utf-8", "replace")


def captures_of(content: bytes | str) -> Iterator[Capture]:
    """Yield the answers of a file or text in order; one without a dialect if there are none.

    Raises:
        ValueError: See ``decode``.
    """
    text = content if isinstance(content, str) else decode(content)
    unread: Capture | None = None
    is_empty = True
    for parts in _answers(normalize_line_ends(text)):
        capture = read_framed(parts)
        if capture.is_answer:
            is_empty = False
            yield capture
        else:
            unread = unread or capture
    if is_empty:
        yield unread or read_framed(Framed(BodyForm.NONE))


def _answers(text: str) -> Iterator[Framed]:
    entries = _ENTRIES.search(text) if _ARCHIVE.match(text) else None
    if entries is not None:
        yield from _archive_answers(text, entries.end())
        return
    stops: tuple[str, ...] = ()
    for segment in _segments(text):
        if COMMAND_LINE.match(segment):
            stops = command_stops(segment)
        request, rest = _split_request(segment)
        if request and rest.strip():
            segment, stops = rest, body_stops(request)
        for answer in _split_answers(split_frames(segment)):
            # A program that logs events as JSON lines writes no head.
            is_dump = answer.form is BodyForm.NDJSON and answer.status is None
            yield replace(answer, stops=answer.stops or stops, is_dump=is_dump)


def _split_request(text: str) -> tuple[dict[str, Any], str]:
    """Return the body of the request that comes first, and the rest; an empty body without one."""
    begin = _OBJECT.search(text)
    if begin is not None:
        try:
            value, end = json.JSONDecoder().raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            return {}, text
        if _REQUEST_FIELDS & value.keys() and not _ANSWER_FIELDS & value.keys():
            return value, text[end:]
    return {}, text


def _segments(text: str) -> Iterator[str]:
    """Yield the parts of a text between requests and heads; heads without a body stay together."""
    # curl -v marks each line; a command still comes before its own lines.
    is_marked = re.search(r"(?m)^< HTTP/", text) is not None
    heads = () if is_marked else STATUS_LINE.finditer(text)
    begins = (() if is_marked else _REQUEST_LINE.finditer(text), COMMAND_LINE.finditer(text))
    starts = {found.start(): False for found in chain(*begins)}
    starts |= {found.start(): True for found in heads}
    begin, head = 0, None
    for start, is_head in sorted(starts.items()):
        if is_head and (head is None or not _has_body(text[head:start])):
            head = start
            continue
        part = text[begin:start]
        if head is not None or re.search(r"(?m)^(?:data:|event:|[{\[])", part):
            yield part
        begin, head = start, start if is_head else None
    yield text[begin:]


def _has_body(head: str) -> bool:
    """Whether an answer follows a head, as after neither a redirect nor 100 Continue."""
    is_final = STATUS_LINE.match(head[:20]) is not None and head.split(" ")[1][:1] in "245"
    return is_final and bool(head.partition("\n\n")[2].strip())


def _split_answers(parts: Framed) -> Iterator[Framed]:
    """Yield the answers of a body with several in a row; a faulty end belongs to its answer."""
    cuts = [0, *_answer_starts(parts.frames, parts.form), len(parts.frames)]
    if len(cuts) == 2:
        yield parts
        return
    for begin, end in pairwise(cuts):
        frames = parts.frames[begin:end]
        if any(not frame.is_done_mark for frame in frames):
            yield replace(parts, frames=frames)


def _answer_starts(frames: tuple[Frame, ...], form: BodyForm) -> Iterator[int]:
    """Yield where a new answer begins: after an end, at an object that can only begin one."""
    last_done = max((at for at, one in enumerate(frames) if _DONE.search(one.raw)), default=-1)
    last_mark = max((at for at, one in enumerate(frames) if one.is_done_mark), default=-1)
    begin, ended, is_whole, is_marked = 0, None, False, False
    for at, frame in enumerate(frames):
        value = mapping(frame.value)
        was_whole, is_whole = is_whole, form is not BodyForm.SSE and _is_whole(value)
        if at > begin and value:
            is_new = was_whole or is_whole or (is_marked and at < last_mark)
            if is_new or (ended is not None and _begins_answer(value, ended, at <= last_done)):
                yield at
                begin, is_marked, ended = at, False, None
        if is_whole or _END.search(frame.raw):
            is_marked |= frame.is_done_mark
            ended = value or ended or {}


def _is_whole(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "message" or value.get("object") in ("response", "chat.completion"):
        return True
    if any("message" in choice for choice in objects(value.get("choices"))):
        return True
    return kind in (None, "error") and isinstance(value.get("error"), dict | str)


def _begins_answer(value: dict[str, Any], ended: dict[str, Any], is_done_again: bool) -> bool:
    """Whether an object after the end of an answer begins another answer."""
    if value.get("type") in _FIRST_EVENTS:
        return True
    here, there = (one.get("id") or mapping(one.get("meta_info")).get("id") for one in
                   (value, ended))  # fmt: skip
    if isinstance(here, str) and isinstance(there, str):
        # A stream's usage comes after its end, without choices.
        return here != there and value.get("choices") != []
    return "done" in value and is_done_again


def _archive_answers(text: str, begin: int) -> Iterator[Framed]:
    """Yield the answers of models' APIs in an archive; web pages have many other entries."""
    number, decoder = 0, json.JSONDecoder()
    try:
        while text[begin] != "]":
            entry, end = decoder.raw_decode(text, begin)
            entry = mapping(entry)
            request, response = mapping(entry.get("request")), mapping(entry.get("response"))
            url = str(request.get("url") or "")
            body = _posted(mapping(request.get("postData")).get("text"))
            if _API_PATH.search(url.partition("?")[0]) or _REQUEST_FIELDS & mapping(body).keys():
                number += 1
                stops = body_stops(body)
                yield replace(_archived(response), stops=stops, label=f"{number}: {url}")
            begin = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError, IndexError):
        message = "The archive is cut off or damaged: the rest was not read."
        note = Finding("archive_damaged", Severity.WARNING, message)
        yield Framed(BodyForm.NONE, is_truncated=True, label=f"{number + 1}", notes=(note,))


def _posted(text: Any) -> Any:
    try:
        return parse_json(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _archived(response: dict[str, Any]) -> Framed:
    body, problem = _archived_body(mapping(response.get("content")))
    error, status = response.get("_error"), response.get("status")
    if isinstance(error, str) and not body:
        problem = error
    notes: tuple[Finding, ...] = ()
    if problem:
        message = f"The body of the answer was not captured: {problem}."
        notes = (Finding("body_missing", Severity.WARNING, message),)
    parts = split_frames(body) if body.strip() else Framed(BodyForm.NONE)
    headers = objects(response.get("headers"))
    return replace(
        parts,
        # Browsers write 0 if no answer arrived.
        status=status if isinstance(status, int) and status > 0 else None,
        headers={str(item.get("name")).lower(): str(item.get("value")) for item in headers},
        is_truncated=bool(problem),
        notes=notes,
    )


def _archived_body(content: dict[str, Any]) -> tuple[str, str]:
    """Return the text of a body, and why it is missing."""
    text = content.get("text")
    if not isinstance(text, str):
        return "", "" if content.get("size") == 0 else "the archive does not hold it"
    if content.get("encoding") != "base64":
        return text, ""
    try:
        return base64.b64decode(text).decode("utf-8", "replace"), ""
    except binascii.Error:
        return "", "its base64 is damaged"
