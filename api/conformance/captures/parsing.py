"""From the text of a captured answer to a ``Capture``: recognises the dialect and has it read.

Tolerant: nothing is an error here, what is wrong is a finding. Pure; any thread.
"""

from collections.abc import Callable
from typing import Any

from api.conformance.captures.draft import Draft, mapping
from api.conformance.captures.framing import MOST_FRAMES, BodyForm, Frame, Framed, framed
from api.conformance.captures.readers import chat, generate, messages, ollama, responses
from api.conformance.captures.values import Capture, Finding, Severity, WireDialect, excerpt

_ReadWhole = Callable[[Draft, dict[str, Any]], None]
_ReadStream = Callable[[Draft, tuple[Frame, ...]], None]

_READERS: dict[WireDialect, tuple[_ReadWhole, _ReadStream]] = {
    WireDialect.MESSAGES: (messages.read_whole, messages.read_stream),
    WireDialect.CHAT: (chat.read_whole, chat.read_stream),
    WireDialect.COMPLETIONS: (chat.read_whole, chat.read_stream),
    WireDialect.RESPONSES: (responses.read_whole, responses.read_stream),
    WireDialect.GENERATE: (generate.read_whole, generate.read_stream),
    WireDialect.OLLAMA: (ollama.read_whole, ollama.read_stream),
}


def parse(text: str, dialect: WireDialect | None = None) -> Capture:
    """Return what a captured answer says.

    Args:
        text: The body, as SSE, NDJSON or JSON; a head, curl's remarks and the curl command itself
            may stand before it.
        dialect: Whose words it is in, where that is known; else it is recognised.
    """
    parts = framed(text)
    known = dialect or recognised(parts.frames)
    if known is None:
        return _unrecognised(parts)
    is_streamed = parts.form in (BodyForm.SSE, BodyForm.NDJSON) and not _is_single(parts)
    draft = Draft(known, parts, is_streamed=is_streamed)
    whole, stream = _READERS[known]
    if parts.form is BodyForm.NONE:
        draft.find("empty", Severity.ERROR, "There is no answer: the body is empty.")
        return draft.finished()
    if parts.is_cut:
        draft.find("too_long", Severity.WARNING, f"Only the first {MOST_FRAMES:,} events are read.")
    _note_broken_frames(draft, parts)
    if is_streamed:
        stream(draft, parts.frames)
        return draft.finished()
    body = mapping(parts.frames[0].value)
    # Some APIs send an error key with every answer, null where all went well.
    if body.get("error") is not None:
        draft.set_error(body["error"])
    else:
        whole(draft, body)
    return draft.finished()


def recognised(frames: tuple[Frame, ...]) -> WireDialect | None:
    """Return whose words the frames are in, or None."""
    for frame in frames:
        value = mapping(frame.value)
        if not value:
            continue
        kind = value.get("type")
        if not isinstance(kind, str):
            kind = None
        if kind in messages.NAMES or kind == "message" or frame.name in messages.NAMES:
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
    """Whether NDJSON of one line is a body that was not streamed; parse errors apart."""
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
    shown = parts.frames[0].raw if parts.frames else ""
    finding = Finding(
        "unknown_dialect",
        Severity.ERROR,
        "This is not an answer of Messages, Chat, Completions, Responses, /generate or Ollama."
        if shown
        else "There is no answer: the body is empty.",
        0 if shown else None,
        excerpt(shown),
    )
    return Capture(
        dialect=None,
        status=parts.status,
        headers=parts.headers,
        asked_stops=parts.stops,
        findings=(finding,),
    )
