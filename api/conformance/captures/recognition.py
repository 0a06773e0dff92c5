"""Recognises the dialect of a captured answer and has the right reader read it.

Tolerant: problems become findings, never exceptions. Pure; any thread.
"""

import re
from collections.abc import Callable
from typing import Any

from api.conformance.captures.draft import Draft, mapping
from api.conformance.captures.frames import MOST_FRAMES, BodyForm, Frame, Framed, framed
from api.conformance.captures.readers import (
    MESSAGES_EVENTS,
    read_chat_stream,
    read_chat_whole,
    read_generate_stream,
    read_generate_whole,
    read_messages_stream,
    read_messages_whole,
    read_ollama_stream,
    read_ollama_whole,
)
from api.conformance.captures.responses_reader import (
    read_responses_stream,
    read_responses_whole,
)
from api.conformance.captures.values import (
    Capture,
    Finding,
    Severity,
    WireDialect,
    excerpt,
    status_in_words,
)

_BEGINNING_CHARS = 64 * 1024
_MARKUP = re.compile(r"\s*<[!?a-zA-Z]")
_TITLE = re.compile(r"<title[^>]*>([^<]{1,500})", re.IGNORECASE)
FORMATS = (
    "a JSON body, server-sent events, NDJSON, the output of curl -i or -v, and HAR, with answers "
    "of Messages, Chat Completions, Completions, Responses, /generate or Ollama"
)
_UNKNOWN = f"This is not an answer in a supported format. Supported are {FORMATS}."
_ReadWhole = Callable[[Draft, dict[str, Any]], None]
_ReadStream = Callable[[Draft, tuple[Frame, ...]], None]

_READERS: dict[WireDialect, tuple[_ReadWhole, _ReadStream]] = {
    WireDialect.MESSAGES: (read_messages_whole, read_messages_stream),
    WireDialect.CHAT: (read_chat_whole, read_chat_stream),
    WireDialect.COMPLETIONS: (read_chat_whole, read_chat_stream),
    WireDialect.RESPONSES: (read_responses_whole, read_responses_stream),
    WireDialect.GENERATE: (read_generate_whole, read_generate_stream),
    WireDialect.OLLAMA: (read_ollama_whole, read_ollama_stream),
}


def parse(text: str, dialect: WireDialect | None = None) -> Capture:
    """Return a captured answer, parsed."""
    return read_framed(framed(text), dialect)


def read_framed(parts: Framed, dialect: WireDialect | None = None) -> Capture:
    """Parse an answer that is already split into frames; see ``parse``."""
    known = dialect or recognised(parts.frames)
    if known is None:
        return _unrecognised(parts)
    is_streamed = parts.form in (BodyForm.SSE, BodyForm.NDJSON) and not _is_single(parts)
    # Whoever names the dialect has asked for the answer, and has all of it.
    draft = Draft(known, parts, is_streamed=is_streamed, is_whole=dialect is not None)
    whole, stream = _READERS[known]
    if parts.form is BodyForm.NONE:
        if not parts.notes:
            draft.find("empty", Severity.ERROR, "There is no answer: the body is empty.")
        return draft.finished()
    if parts.is_cut:
        sentence = f"Only the first {MOST_FRAMES:,} events are read."
        draft.find("too_long", Severity.WARNING, sentence)
    _note_broken_frames(draft, parts)
    if is_streamed:
        stream(draft, parts.frames)
        return draft.finished()
    body = mapping(parts.frames[0].value)
    # Some APIs send an error key with every answer; it is null on success.
    if body.get("error") is not None:
        draft.set_error(body["error"])
    else:
        draft.check_form(0, body)
        whole(draft, body)
    return draft.finished()


def recognised(frames: tuple[Frame, ...]) -> WireDialect | None:
    """Return the dialect of the frames, or None."""
    for frame in frames:
        value = mapping(frame.value)
        if not value:
            continue
        kind = value.get("type")
        if not isinstance(kind, str):
            kind = None
        if kind in MESSAGES_EVENTS or kind == "message" or frame.name in MESSAGES_EVENTS:
            return WireDialect.MESSAGES
        if (kind or "").startswith("response.") or value.get("object") == "response":
            return WireDialect.RESPONSES
        if "choices" in value:
            return _of_choices(value)
        if "meta_info" in value:
            return WireDialect.GENERATE
        if "done" in value and ("message" in value or "response" in value):
            return WireDialect.OLLAMA
    return _of_error(mapping(frames[0].value) if frames else {})


def _of_choices(value: dict[str, Any]) -> WireDialect:
    choice = mapping((value["choices"] or [{}])[0]) if isinstance(value["choices"], list) else {}
    is_text = "text" in choice or value.get("object") == "text_completion"
    return WireDialect.COMPLETIONS if is_text else WireDialect.CHAT


def _of_error(value: dict[str, Any]) -> WireDialect | None:
    error = value.get("error")
    if isinstance(error, str):
        return WireDialect.OLLAMA
    if isinstance(error, dict):
        return WireDialect.MESSAGES if value.get("type") == "error" else WireDialect.CHAT
    return None


def _is_single(parts: Framed) -> bool:
    """Whether NDJSON of one line is a body that was not streamed."""
    return parts.form is BodyForm.NDJSON and len(parts.frames) == 1 and parts.frames[0].is_json


def _note_broken_frames(draft: Draft, parts: Framed) -> None:
    last = len(parts.frames) - 1
    for index, frame in enumerate(parts.frames):
        if frame.is_json or frame.is_done_mark:
            continue
        if index == last and frame.raw.lstrip().startswith(("{", "[")):
            draft.find(
                "stream_truncated",
                Severity.ERROR,
                "The answer breaks off in the middle of its JSON.",
                index,
            )
        else:
            draft.find("bad_json", Severity.ERROR, "A line is not JSON; clients fail here.", index)


def _unrecognised(parts: Framed) -> Capture:
    first = parts.frames[0].raw if parts.frames else ""
    at = 0 if first else None
    if parts.status is not None and parts.status >= 400:
        said = f"{status_in_words(parts.status)}, {_kind_of_page(first)}"
        sentence = f"The server, or a proxy before it, answered with {said}."
        finding = Finding("error_status", Severity.ERROR, sentence, at, excerpt(first))
    elif not first and parts.notes:
        return _unread(parts, parts.notes)
    else:
        sentence = _UNKNOWN if first else "There is no answer: the body is empty."
        if _MARKUP.match(first):
            sentence = f"This is {_kind_of_page(first)}, not an answer of a model's API."
        finding = Finding("unknown_dialect", Severity.ERROR, sentence, at, excerpt(first))
    return _unread(parts, (*parts.notes, finding))


def _unread(parts: Framed, findings: tuple[Finding, ...]) -> Capture:
    return Capture(
        dialect=None,
        status=parts.status,
        headers=parts.headers,
        asked_stops=parts.stops,
        is_cut=parts.is_cut,
        label=parts.label,
        findings=findings,
    )


def _kind_of_page(text: str) -> str:
    """Describe a body that is not JSON, with the title of an HTML page."""
    if not text.strip():
        return "without a body"
    title = _TITLE.search(text[:_BEGINNING_CHARS])
    if not _MARKUP.match(text):
        return "in a form that is not known"
    return f"an HTML page: {excerpt(title[1].strip())}" if title else "an HTML page"
