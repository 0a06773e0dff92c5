"""Recognises the dialect of a saved answer and reads it; problems become findings.

Pure; any thread.
"""

import re
from collections.abc import Callable
from typing import Any

from api.conformance.captures.draft import Draft
from api.conformance.captures.frames import BodyForm, Frame, Framed, mapping, objects, split_frames
from api.conformance.captures.messages_reader import MESSAGES_EVENTS, read_messages
from api.conformance.captures.readers import read_chat, read_generate, read_ollama
from api.conformance.captures.responses_reader import read_responses
from api.conformance.captures.values import (
    Capture,
    Finding,
    Severity,
    WireDialect,
    excerpt,
    status_text,
)

FORMATS = (
    "a JSON body, server-sent events, NDJSON, the output of curl -i or -v, and HAR, with answers "
    "of Messages, Chat Completions, Completions, Responses, /generate or Ollama"
)
_MARKUP = re.compile(r"\s*<[!?a-zA-Z]")
_TITLE = re.compile(r"<title[^>]*>([^<]{1,500})", re.IGNORECASE)
_READERS: dict[WireDialect, Callable[[Draft], None]] = {
    WireDialect.MESSAGES: read_messages,
    WireDialect.CHAT: read_chat,
    WireDialect.COMPLETIONS: read_chat,
    WireDialect.RESPONSES: read_responses,
    WireDialect.GENERATE: read_generate,
    WireDialect.OLLAMA: read_ollama,
}


def parse(text: str, dialect: WireDialect | None = None) -> Capture:
    """Return a saved answer, parsed; in a named dialect it is expected to be complete."""
    return read_framed(split_frames(text), dialect)


def read_framed(parts: Framed, dialect: WireDialect | None = None) -> Capture:
    """Parse an answer that is already split into frames; see ``parse``."""
    known = dialect or recognize(parts.frames)
    if known is None:
        return _read_unknown(parts)
    is_single = len(parts.frames) == 1 and parts.frames[0].is_json
    is_streamed = parts.form is BodyForm.SSE or (parts.form is BodyForm.NDJSON and not is_single)
    draft = Draft(known, parts, is_streamed=is_streamed, is_complete=dialect is not None)
    if parts.form is BodyForm.NONE:
        if not parts.notes:
            draft.find("empty", "There is no answer: the body is empty.")
        return draft.finish()
    _check_json(draft, parts.frames)
    error = None if is_streamed else mapping(parts.frames[0].value).get("error")
    # Some APIs send an error key with every answer; it is null on success.
    if error is not None:
        draft.set_error(error)
    else:
        _READERS[known](draft)
    return draft.finish()


def recognize(frames: tuple[Frame, ...]) -> WireDialect | None:
    """Return the dialect of the frames, or None."""
    for frame in frames:
        value = mapping(frame.value)
        kind = value.get("type")
        kind = kind if isinstance(kind, str) else ""
        if value and (kind in (*MESSAGES_EVENTS, "message") or frame.name in MESSAGES_EVENTS):
            return WireDialect.MESSAGES
        if kind.startswith("response.") or value.get("object") == "response":
            return WireDialect.RESPONSES
        if "choices" in value:
            choice = next(iter(objects(value["choices"])), {})
            is_text = "text" in choice or value.get("object") == "text_completion"
            return WireDialect.COMPLETIONS if is_text else WireDialect.CHAT
        if "meta_info" in value:
            return WireDialect.GENERATE
        if "done" in value and ("message" in value or "response" in value):
            return WireDialect.OLLAMA
    return _recognize_error(mapping(frames[0].value) if frames else {})


def _recognize_error(value: dict[str, Any]) -> WireDialect | None:
    error = value.get("error")
    if isinstance(error, str):
        return WireDialect.OLLAMA
    if isinstance(error, dict):
        return WireDialect.MESSAGES if value.get("type") == "error" else WireDialect.CHAT
    return None


def _check_json(draft: Draft, frames: tuple[Frame, ...]) -> None:
    for index, frame in enumerate(frames):
        if frame.is_json or frame.is_done_mark:
            continue
        if index == len(frames) - 1 and frame.raw.lstrip().startswith(("{", "[")):
            message = "The answer breaks off in the middle of its JSON."
            draft.find("stream_truncated", message, index)
        else:
            draft.find("bad_json", "A line is not JSON; clients fail here.", index)


def _read_unknown(parts: Framed) -> Capture:
    first = parts.frames[0].raw if parts.frames else ""
    code, message = "unknown_dialect", "There is no answer: the body is empty."
    if parts.status is not None and parts.status >= 400:
        code = "error_status"
        description = f"{status_text(parts.status)}, {_describe_page(first)}"
        message = f"The server, or a proxy before it, answered with {description}."
    elif _MARKUP.match(first):
        message = f"This is {_describe_page(first)}, not an answer of a model's API."
    elif first:
        message = f"This is not an answer in a supported format. Supported are {FORMATS}."
    findings = parts.notes
    if first or not findings or code == "error_status":
        at = 0 if first else None
        findings += (Finding(code, Severity.ERROR, message, at, excerpt(first)),)
    return Capture(
        dialect=None,
        status=parts.status,
        headers=parts.headers,
        findings=findings,
        request_stops=parts.stops,
        is_truncated=parts.is_truncated,
        label=parts.label,
    )


def _describe_page(text: str) -> str:
    """Describe a body that is not JSON, with the title of an HTML page."""
    if not text.strip():
        return "without a body"
    if not _MARKUP.match(text):
        return "in a form that is not known"
    title = _TITLE.search(text)
    return f"an HTML page: {excerpt(title[1].strip())}" if title else "an HTML page"
