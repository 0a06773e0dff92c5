"""Finds the answers in a file or a pasted text, and reads each of them.

Reads a JSON body, server-sent events, NDJSON, what ``curl -i`` and ``curl -v`` print, and HAR.
Pure; any thread.
"""

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import (
    BodyForm,
    Framed,
    asked_stops,
    find_command,
    framed,
    line_start,
    status_lines,
)
from api.conformance.captures.har import answers_of_archive, entries_of
from api.conformance.captures.recognition import FORMATS, read_framed
from api.conformance.captures.values import Capture

MAX_BYTES = 32 * 1024 * 1024
_SAMPLE_BYTES = 4096


class NotReadable(ValueError):
    """A file cannot be read; the message says why and completes a sentence."""


def decoded(content: bytes) -> str:
    """Return the text of a file; invalid UTF-8 is part of the capture, and is replaced.

    Raises:
        NotReadable: It is compressed or binary, or text of another encoding than UTF-8.
    """
    if b"\0" in content[:_SAMPLE_BYTES] or content.startswith(b"\x1f\x8b"):
        raise NotReadable(
            f"it is not UTF-8 text, but compressed or binary. Supported are {FORMATS}"
        )
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def captures_of(content: bytes | str) -> Iterator[Capture]:
    """Yield the answers of a capture in order; one without a dialect if there are none.

    Args:
        content: A file's content, or a text.

    Raises:
        NotReadable: See ``decoded``.
    """
    nothing: Capture | None = None
    is_any = False
    text = content if isinstance(content, str) else decoded(content)
    del content  # free the bytes of a large file once its text is there
    for parts in _answers(text):
        capture = read_framed(parts)
        if not is_answer(capture):
            nothing = nothing or capture
            continue
        is_any = True
        yield capture
    if not is_any:
        yield nothing or read_framed(Framed(BodyForm.NONE))


def is_answer(capture: Capture) -> bool:
    """Whether a capture is an answer, even one of unknown format or a missing one."""
    return capture.dialect is not None or any(
        finding.code != "unknown_dialect" for finding in capture.findings
    )


def _answers(text: str) -> Iterator[Framed]:
    begin = entries_of(text)
    if begin is not None:
        yield from answers_of_archive(text, begin)
        return
    stops: tuple[str, ...] = ()
    for segment in segments(text):
        stops = stops if segment.stops is None else segment.stops
        for answer in answers_of(framed(segment.text)):
            # A program that writes the events as JSON lines writes no head.
            is_dump = answer.form is BodyForm.NDJSON and answer.status is None
            yield replace(answer, stops=answer.stops or stops, is_dump=is_dump)


# Splits a text at the commands and heads in it: each answer with the command before it.

_MAX_COMMAND_CHARS = 256 * 1024
_HEAD_END = re.compile(r"\r?\n\r?\n|\r\r")
_SOMETHING = re.compile(r"[^\s]")


@dataclass(frozen=True, slots=True)
class CapturePart:
    """A part of a text with an answer in it, and the stops of the command before it."""

    text: str
    stops: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Mark:
    """The beginning of a command, or of an answer with a status."""

    at: int
    status: int | None


def segments(text: str) -> Iterator[CapturePart]:
    """Yield the parts of a text, each with one answer, or with several answers without heads."""
    # curl -v marks each line; a command still comes before its own lines.
    is_marked = line_start(text, "< HTTP/") is not None
    # Merged one at a time, because a text may have millions of them.
    marks = (
        _commands(text)
        if is_marked
        else heapq.merge(_heads(text), _commands(text), key=lambda mark: mark.at)
    )
    begin, stops, head = 0, None, None
    for mark in marks:
        if mark.status is None:
            if head is not None or _has_answer(text, begin, mark.at):
                yield CapturePart(_part(text, begin, mark.at), stops)
            begin, head = mark.at, None
            stops = asked_stops(text[mark.at : mark.at + _MAX_COMMAND_CHARS])
        elif head is None or not _has_body(text, head, mark.at):
            head = mark
        else:
            yield CapturePart(_part(text, begin, mark.at), stops)
            begin, head = mark.at, mark
    yield CapturePart(_part(text, begin, len(text)), stops)


def _part(text: str, begin: int, end: int) -> str:
    return text if begin == 0 and end == len(text) else text[begin:end]


def _heads(text: str) -> Iterator[_Mark]:
    for found in status_lines(text):
        yield _Mark(found.start(), int(found[1]))


def _commands(text: str) -> Iterator[_Mark]:
    at = find_command(text)
    while at is not None:
        yield _Mark(max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1, None)
        at = find_command(text, at + 1)


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


# Splits a body with several answers in a row.
#
# A new answer begins after the end of the last one, at an object that can only begin an answer.
# Anything else that a faulty server sends after the end belongs to the last answer.

_END = re.compile(
    r'"(?:finish_reason|done_reason|stop_reason)"\s*:\s*["{]'
    r'|\[DONE\]|message_stop|"response\.(?:completed|incomplete|failed)"|"done"\s*:\s*true|"error"'
)
_DONE = re.compile(r'"done"\s*:\s*true')
_MAYBE_WHOLE = re.compile(
    r'"(?:message|output)"\s*:\s*\{|"type"\s*:\s*"message"|"object"\s*:\s*"(?:response|chat\.completion|'
    r'text_completion)"|"error"\s*:\s*["{]'
)
_FIRST = ("message_start", "response.created")


def answers_of(parts: Framed) -> Iterator[Framed]:
    """Yield the answers of a body; the body itself if there is only one."""
    cuts = [0, *_cuts(parts), len(parts.frames)]
    if len(cuts) == 2:
        yield parts
        return
    for number, (begin, end) in enumerate(pairwise(cuts)):
        frames = parts.frames[begin:end]
        if any(not frame.is_done_mark for frame in frames):
            is_last = number == len(cuts) - 2
            yield replace(parts, frames=frames, is_cut=parts.is_cut and is_last)


def _cuts(parts: Framed) -> Iterator[int]:
    """Yield where a new answer begins."""
    frames = parts.frames
    last_done = next(
        (at for at in range(len(frames) - 1, -1, -1) if _DONE.search(frames[at].raw)), -1
    )
    last_mark = next((at for at in range(len(frames) - 1, -1, -1) if frames[at].is_done_mark), -1)
    has_ended = is_whole = is_marked = False
    begun = 0
    ended: Any = None
    for at, frame in enumerate(frames):
        maybe_whole = parts.form is not BodyForm.SSE and _MAYBE_WHOLE.search(frame.raw) is not None
        value = mapping(frame.value) if has_ended or maybe_whole else {}
        was_whole, is_whole = is_whole, maybe_whole and _is_whole(value)
        if at > begun and value:
            is_new = was_whole or is_whole or (is_marked and at < last_mark)
            if is_new or (has_ended and _begins(value, ended, at <= last_done)):
                yield at
                begun, has_ended, is_marked, ended = at, False, False, None
        if is_whole or _END.search(frame.raw):
            has_ended = True
            is_marked |= frame.is_done_mark
            ended = mapping(frame.value) or ended


def _is_whole(value: dict[str, Any]) -> bool:
    """Whether an object is a whole answer, and not a part of a stream."""
    kind = value.get("type")
    if kind == "message" or value.get("object") in ("response", "chat.completion"):
        return True
    if any("message" in mapping(choice) for choice in items(value.get("choices"))):
        return True
    return kind in (None, "error") and isinstance(value.get("error"), dict | str)


def _begins(value: dict[str, Any], ended: Any, is_ended_again: bool) -> bool:
    """Whether an object after the end of an answer begins another answer."""
    if value.get("type") in _FIRST:
        return True
    here, there = _id(value), _id(mapping(ended))
    if here and there:
        # A stream's usage comes after its end, without choices.
        return here != there and value.get("choices") != []
    return "done" in value and is_ended_again


def _id(value: dict[str, Any]) -> str:
    answer_id = value.get("id") or mapping(value.get("meta_info")).get("id")
    return answer_id if isinstance(answer_id, str) else ""
