"""Splits a body with several answers in a row, and reads lists of recorded answers.

A new answer begins after the end of the last one, at an object that can only begin an answer.
Anything else that a faulty server sends after the end belongs to the last answer. Pure; any thread.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.framing import BodyForm, Framed
from api.conformance.captures.opening.record import Record

_END = re.compile(
    r'"(?:finish_reason|finishReason|done_reason|stop_reason|stopReason|stop_type)"\s*:\s*["{]'
    r'|\[DONE\]|message_stop|"response\.(?:completed|incomplete|failed)"'
    r'|"generated_text"\s*:\s*"|"(?:done|stop)"\s*:\s*true|"error"|Exception"|messageStop'
)
_DONE = re.compile(r'"(?:done|stop)"\s*:\s*true')
_MAYBE_WHOLE = re.compile(
    r'"(?:message|output)"\s*:\s*\{|"type"\s*:\s*"message"|"object"\s*:\s*"(?:response|chat\.completion|'
    r'text_completion)"|"generated_text"\s*:\s*"|"error"\s*:\s*["{]|"candidates"'
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
    if "generated_text" in value:
        return "token" not in value
    return ("stopReason" in value and "output" in value) or (
        kind in (None, "error") and isinstance(value.get("error"), dict | str)
    )


def _begins(value: dict[str, Any], ended: Any, is_ended_again: bool) -> bool:
    """Whether an object after the end of an answer begins another answer.

    Args:
        value: The object.
        ended: The last object of the answer before.
        is_ended_again: Whether another object that marks an end follows.
    """
    if value.get("type") in _FIRST or "messageStart" in value:
        return True
    here, there = _id(value), _id(mapping(ended))
    if here and there:
        # A stream's usage comes after its end, without choices.
        return here != there and value.get("choices") != []
    if "done" in value or ("content" in value and "stop" in value):
        return is_ended_again
    return mapping(value.get("token")) != {} and value.get("index") == 1


def _id(value: dict[str, Any]) -> str:
    found = value.get("id") or value.get("responseId") or mapping(value.get("meta_info")).get("id")
    return found if isinstance(found, str) else ""


# -- records ----------------------------------------------------------------------------------


def recorded(parts: Framed) -> list[Framed] | None:
    """Return the answers of a body that is a list of records of requests and answers.

    Programs save such records, and vendors use them for the results of batches. None if the body is
    not such a list.
    """
    if parts.form is BodyForm.SSE or not parts.frames:
        return None
    if _record(mapping(parts.frames[0].value)) is None:
        return None
    found: list[Framed] = []
    for number, frame in enumerate(parts.frames, 1):
        record = _record(mapping(frame.value))
        if record is not None:
            found.append(record.framed(number))
    return found


def _record(value: dict[str, Any]) -> Record | None:
    if isinstance(value.get("type"), str):
        return None
    asked = value.get("request")
    named = str(value.get("custom_id") or value.get("id") or "record")[:200]
    answer = value.get("response")
    result = mapping(value.get("result"))
    if isinstance(answer, dict) and "body" in answer:
        status = answer.get("status_code") or answer.get("status")
        body = answer["body"]
    elif isinstance(asked, dict) and isinstance(answer, dict | list | str):
        status, body = value.get("status"), answer
    elif "message" in result or ("error" in result and "custom_id" in value):
        status, body = None, result.get("message") or result.get("error")
    else:
        return None
    return Record(
        url=named,
        request=json.dumps(mapping(asked).get("body") or asked) if asked else "",
        status=status if isinstance(status, int) else None,
        body=body if isinstance(body, str) else json.dumps(body),
    )
