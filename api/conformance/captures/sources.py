"""Finds the answers in what a person has: a body, a log, a transcript, a recording.

Pure; any thread.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import (
    BodyForm,
    Framed,
    end_of_object,
    framed,
    line_start,
    parsed,
)
from api.conformance.captures.readers import MESSAGES_REASONS
from api.conformance.captures.recognition import read_framed
from api.conformance.captures.recordings import (
    Record,
    entries_of,
    opened,
    records_of_har,
    segments,
    traced,
)
from api.conformance.captures.values import Capture, Decode, Finding, Severity, as_it_stands

# Removes quotation marks, fences, times and indentation around a pasted answer.

# The beginning of a line of an answer.
_ANSWER = r"(?:data:|event:|HTTP/\d|\{|\[ *\{|\[ *$)"
_BEGINNING_CHARS = 1024 * 1024
_MOST_QUOTED = 5
_QUOTED = re.compile(rf"^[ \t]*>[> \t]*(?:{_ANSWER}|```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ \t]*>(?:[> \t]*>)? ?", re.MULTILINE)
_ONE_QUOTE = re.compile(r"^[ \t]*> ?", re.MULTILINE)
_UNQUOTED_LINE = re.compile(r"^[ \t]*[^\s>]", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_INDENTED = re.compile(r"^[ \t]+(?:data:|event:|HTTP/\d)", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
# 2026-11-22T14:10:39.123Z, Nov 22 14:10:39, [14:10:39], 1763820639.123, [  12.345678]; the name of
# a Docker service may precede it.
_STAMP = (
    r"(?:[\w.\-/]{1,60} +\| +)?[\[(]?(?:"
    r"(?:(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]|(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} +\d{1,2} (?:\d{4} )?"
    r"|\d{1,2}[/ ][A-Z][a-z]{2}[/ ]\d{4}[: ])? *\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|GMT|[AP]M|[+-]\d\d:?\d\d))?)"
    r"|\d{10}(?:\.\d{1,9})?|\d{13}| *\d{1,7}\.\d{3,9}s?)[\])]?"
)
_MIDDLE = r"[^{}\"\r\n]{0,120}?"
_STAMPED = re.compile(rf"^{_STAMP}[ \t|:\-,]{_MIDDLE}(?=data:|event:|HTTP/\d|\{{)", re.MULTILINE)
_TIME = re.compile(
    rf"^{_STAMP}(?:[ \t|:\-,]{_MIDDLE}(?=data:|event:|id: |retry:|HTTP/\d|\{{|\[ *\{{)|[ \t]?)",
    re.MULTILINE,
)


# Colours, as ``jq -C`` and docker compose write them.
_COLOR = re.compile(r"\x1b\[[\d;]*m")
# A service's name before each line, as docker compose writes it.
_SERVICE = re.compile(r"^[\w.\-/]{1,80} +\| ?", re.MULTILINE)
_INLINE = re.compile(r"```(?:[a-z]{1,10} )?[ \t]*([{\[][^\n]*?)```")


def without_colors(text: str) -> str:
    """Return a text without a terminal's colours."""
    return _COLOR.sub("", text) if "\x1b[" in text[:_BEGINNING_CHARS] else text


def unwrapped(text: str) -> Iterator[str]:
    """Yield the parts of a text that may contain answers, without the text around their lines."""
    text = _without_services(_without_quotes(text))
    blocks = _fenced(text)
    for block in blocks or [text]:
        yield _without_indent(_without_times(block))


def _without_services(text: str) -> str:
    lines = [line for line in text[: _BEGINNING_CHARS // 16].split("\n")[:200] if line.strip()]
    named = sum(_SERVICE.match(line) is not None for line in lines)
    # The last of the lines looked at may be cut.
    return _SERVICE.sub("", text) if named and named >= len(lines) - 1 else text


def _without_quotes(text: str) -> str:
    for _ in range(_MOST_QUOTED):
        beginning = text[:_BEGINNING_CHARS]
        if ">" not in beginning or _UNQUOTED_LINE.search(beginning):
            break
        text = _ONE_QUOTE.sub("", text)
    # curl -v marks sent lines in the same way.
    if line_start(text, "< HTTP/") is None and _QUOTED.search(text[:_BEGINNING_CHARS]):
        text = _QUOTE.sub("", text)
    return text


def _fenced(text: str) -> list[str]:
    """Return the texts between fences; [] if there are none."""
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[str] = []
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opening is None:
            opening = match
        elif match[1].startswith(opening[1]):
            blocks.append(text[opening.end() + 1 : match.start()])
            opening = None
    if opening is not None:
        blocks.append(text[opening.end() + 1 :])
    blocks = blocks or _INLINE.findall(text)
    return [block for block in blocks if block.strip()]


def _without_times(text: str) -> str:
    return _TIME.sub("", text) if _STAMPED.search(text[:_BEGINNING_CHARS]) else text


def _without_indent(text: str) -> str:
    beginning = text[:_BEGINNING_CHARS]
    if not _INDENTED.search(beginning):
        return text
    if any(line_start(beginning, word) is not None for word in ("data:", "event:", "HTTP/")):
        return text
    return _INDENT.sub("", text)


# Splits a body with several answers in a row, and reads lists of recorded answers.
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
    answers: list[Framed] = []
    for number, frame in enumerate(parts.frames, 1):
        record = _record(mapping(frame.value))
        if record is not None:
            answers.append(record.framed(number))
    return answers


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


# Splits a file or a pasted text into its answers.


def captures_of(content: bytes | str) -> Iterator[Capture]:
    """Yield the answers of a capture in order; one without a dialect if there are none.

    Args:
        content: A file's content, or a text.

    Raises:
        NotReadable: The file's compression is unknown, or it is damaged or too large.
    """
    nothing: Capture | None = None
    is_any = False
    framed_answers = _framed(content)
    del content  # free the bytes of a large file once its text is there
    for parts in framed_answers:
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


def _framed(content: bytes | str) -> Iterator[Framed]:
    if isinstance(content, str):
        yield from _framed_text(content, as_it_stands)
        return
    found = opened(content)
    del content
    if found.records:
        yield from _framed_records(found.records)
    else:
        yield from _framed_text(found.text, found.decode)


def _framed_records(records: Iterable[Record]) -> Iterator[Framed]:
    for number, record in enumerate(records, 1):
        parts = record.framed(number)
        yield replace(parts, is_dump=_is_dump(parts))


def _framed_text(text: str, decode: Decode) -> Iterator[Framed]:
    begin = entries_of(text)
    if begin is not None:
        yield from _framed_archive(text, begin, decode)
        return
    notes: tuple[Finding, ...] = ()
    text = without_colors(text)
    if (records := exported(text)) is not None:
        yield from _framed_records(records)
        return
    trace = traced(text)
    if trace is not None:
        # The trace's characters are bytes: see ``traced``.
        text, decode, notes = trace.text, trace.decode, trace.notes
    stops: tuple[str, ...] = ()
    for part in unwrapped(text):
        for segment in segments(part):
            asked = segment.stops
            stops = stops if asked is None else tuple(map(decode, asked))
            body = framed(segment.text, decode)
            for answer in recorded(body) or answers_of(body):
                yield replace(
                    answer,
                    stops=answer.stops or stops,
                    is_dump=_is_dump(answer),
                    notes=(*answer.notes, *notes),
                )


def _framed_archive(text: str, begin: int, decode: Decode) -> Iterator[Framed]:
    number = 0
    try:
        for record in records_of_har(text, begin, decode):
            number += 1
            yield record.framed(number)
    except ValueError:
        sentence = "The archive is cut off or damaged: the rest was not read."
        note = Finding("archive_damaged", Severity.WARNING, sentence)
        yield Framed(BodyForm.NONE, is_cut=True, label=f"{number + 1}", notes=(note,))


def _is_dump(parts: Framed) -> bool:
    """Whether a program wrote the events to a file: as JSON, without a head."""
    return parts.form is BodyForm.NDJSON and parts.status is None


# -- what other programs export ----------------------------------------------------------------
# LiteLLM's logs, Postman, Langfuse, spans, mitmproxy.


_EXPORT_CHARS = 256 * 1024


def exported(text: str) -> Iterator[Record] | None:
    """Return the records of an export; None if a text is not one that is known."""
    beginning = text[:_EXPORT_CHARS]
    if _RAW in beginning:
        return _lite_llm(text)
    if _MITM_ANSWER.search(beginning) and _MITM_REQUEST.search(beginning):
        return _mitmproxy(text)
    if text.lstrip()[:1] != "{" or not any(mark in beginning for mark in _MARKS):
        return None
    try:
        values = [mapping(parsed(text))]
    except ValueError:
        try:
            values = [mapping(parsed(line)) for line in text.splitlines() if line.strip()]
        except ValueError:
            return None
    records = [record for value in values for record in _of_value(value)]
    return iter(records) if records else None


# Words of which one is in each export that is one JSON value, or one a line.
_MARKS = ("getpostman.com", '"gen_ai.', '"GENERATION"')


def _of_value(value: dict[str, Any]) -> Iterator[Record]:
    if "item" in value and "info" in value:
        yield from _postman(value, 0)
    elif "resourceSpans" in value or "attributes" in value:
        yield from _spans(value)
    else:
        observations = items(value.get("observations")) or items(value.get("data")) or [value]
        for observation in map(mapping, observations):
            if observation.get("type") == "GENERATION":
                yield _langfuse(observation)


# LiteLLM's debug log: as text, or as JSON with the text as the message of a line.

_RAW = "RAW RESPONSE:"
_STOPS = re.compile(r"""['"\\]+stop(?:_sequences)?['"\\]+: (\[[^\]]{0,2000}\]|'[^']{1,500}')""")


def _lite_llm(text: str) -> Iterator[Record]:
    begin = 0
    while (at := text.find(_RAW, begin)) >= 0:
        asked = list(_STOPS.finditer(text, max(begin, at - _EXPORT_CHARS), at))
        stops = _literal(asked[-1][1]) if asked else []
        request = json.dumps({"stop": stops}) if stops else ""
        # In JSON the text is the message of its line.
        line = text.rfind("\n", 0, at) + 1
        logged = text[line : _line_end(text, at)]
        source = text[at + len(_RAW) :] if not logged.startswith("{") else _message(logged)
        begin = at + len(_RAW)
        body = _first_object(source)
        if body:
            yield Record(url="LiteLLM", request=request, body=body)


def _message(line: str) -> str:
    try:
        message = mapping(parsed(line)).get("message")
    except ValueError:
        return ""
    return message.partition(_RAW)[2] if isinstance(message, str) else ""


def _first_object(text: str) -> str:
    """Return the object with which a text begins, as JSON; empty if there is none."""
    begin = len(text) - len(text.lstrip())
    try:
        text_of_object = text[begin : end_of_object(text, begin)]
    except ValueError:
        return ""
    try:
        parsed(text_of_object)
    except ValueError:
        # Some answers are logged as Python writes them.
        value = _literal(text_of_object)
        return json.dumps(value) if isinstance(value, dict) else ""
    return text_of_object


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.replace('\\"', '"'))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


# What mitmdump prints with --flow-detail 3: requests, and answers after "<<".

_MITM_REQUEST = re.compile(
    r"^[\d.:\[\]a-f]+(?: |:\d+: )(?:POST|GET|PUT) (\S+)[^\n]*$", re.MULTILINE
)
_MITM_ANSWER = re.compile(r"^ *<< (?:HTTP/[\d.]+ )?(\d{3})\b[^\n]*$", re.MULTILINE)


def _mitmproxy(text: str) -> Iterator[Record]:
    requests = list(_MITM_REQUEST.finditer(text))
    for number, request in enumerate(requests):
        end = requests[number + 1].start() if number + 1 < len(requests) else len(text)
        answer = _MITM_ANSWER.search(text, request.end(), end)
        if answer is None:
            continue
        _, asked = _mitm_part(text[request.end() : answer.start()])
        headers, body = _mitm_part(text[answer.end() : end])
        record = Record(request[1], asked, int(answer[1]), headers, body)
        if record.asks_a_model:
            yield record


def _mitm_part(text: str) -> tuple[dict[str, str], str]:
    """Return the headers and the body of a message whose lines are indented."""
    lines = [re.sub(r"^ {4}", "", line) for line in text.strip("\n").split("\n")]
    blank = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    pairs = (line.partition(":") for line in lines[:blank])
    headers = {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
    return headers, "\n".join(lines[blank + 1 :])


# Collections of Postman, with saved answers.

_MOST_FOLDERS = 20


def _postman(holder: dict[str, Any], level: int) -> Iterator[Record]:
    for item in map(mapping, items(holder.get("item")) if level < _MOST_FOLDERS else []):
        yield from _postman(item, level + 1)
        for answer in map(mapping, items(item.get("response"))):
            request = mapping(answer.get("originalRequest")) or mapping(item.get("request"))
            url, asked = request.get("url"), mapping(request.get("body")).get("raw")
            body, status = answer.get("body"), answer.get("code")
            record = Record(
                url=str(mapping(url).get("raw") if isinstance(url, dict) else url or ""),
                request=asked if isinstance(asked, str) else "",
                status=status if isinstance(status, int) else None,
                headers={
                    str(header.get("key")).lower(): str(header.get("value"))
                    for header in map(mapping, items(answer.get("header")))
                },
                body=body if isinstance(body, str) else "",
            )
            if record.asks_a_model:
                yield record


# Records that hold parts of an answer: its text, its reason, its counts.


def _langfuse(observation: dict[str, Any]) -> Record:
    output, usage = (
        observation.get("output"),
        mapping(observation.get("usageDetails") or observation.get("usage")),
    )
    if isinstance(output, dict) and "choices" in output:
        return Record(url=_name(observation), request=_asked(observation), body=json.dumps(output))
    message = output if isinstance(output, dict) else {"content": output}
    reason = message.get("finish_reason") or mapping(observation.get("metadata")).get(
        "finish_reason"
    )
    counts = (usage.get("input"), usage.get("output"))
    return _rebuilt(_name(observation), _asked(observation), message, reason, counts)


def _name(observation: dict[str, Any]) -> str:
    return str(observation.get("name") or observation.get("id") or "generation")[:200]


def _asked(observation: dict[str, Any]) -> str:
    return json.dumps(mapping(observation.get("modelParameters")))


def _spans(value: dict[str, Any]) -> Iterator[Record]:
    spans = [
        span
        for resource in map(mapping, items(value.get("resourceSpans")))
        for scope in map(mapping, items(resource.get("scopeSpans")))
        for span in map(mapping, items(scope.get("spans")))
    ]
    for span in spans or [value]:
        listed = span.get("attributes")
        pairs = map(mapping, listed) if isinstance(listed, list) else ()
        named = {str(pair.get("key")): _plain(pair.get("value")) for pair in pairs}
        named = named or mapping(listed)
        if any(name.startswith("gen_ai.") for name in named):
            yield _span(str(span.get("name") or "span")[:200], named)


def _plain(value: Any) -> Any:
    """Return a value of OTLP's JSON as an ordinary one."""
    kind, inner = next(iter(mapping(value).items()), ("", None))
    if kind == "arrayValue":
        return [_plain(item) for item in items(mapping(inner).get("values"))]
    digits = str(inner)
    return int(digits) if kind == "intValue" and digits.isdecimal() else inner


def _span(name: str, named: dict[str, Any]) -> Record:
    stops = named.get("gen_ai.request.stop_sequences")
    reasons = named.get("gen_ai.response.finish_reasons")
    reason = next(iter(items(reasons)), None) or named.get("gen_ai.completion.0.finish_reason")
    messages = named.get("gen_ai.output.messages")
    if isinstance(messages, str):
        messages = _literal_json(messages)
    first = mapping(next(iter(items(messages)), {}))
    content = named.get("gen_ai.completion.0.content")
    parts = map(mapping, items(first.get("parts")))
    said = [str(part.get("content", "")) for part in parts if part.get("type") == "text"]
    message = {"role": "assistant", "content": "".join(said) if said else content}
    counts = (named.get("gen_ai.usage.input_tokens"), named.get("gen_ai.usage.output_tokens"))
    request = json.dumps({"stop": items(stops)})
    return _rebuilt(name, request, message, first.get("finish_reason") or reason, counts)


def _literal_json(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None


def _rebuilt(
    url: str, request: str, message: dict[str, Any], reason: Any, counts: tuple[Any, Any]
) -> Record:
    """Return a record as an answer of Messages if its reason is one of that API, else of Chat."""
    lacks_reason = not isinstance(reason, str)
    text = message.get("content")
    text = text if isinstance(text, str) else ""
    if reason in MESSAGES_REASONS:
        body: dict[str, Any] = {
            "type": "message",
            "content": [{"type": "text", "text": text}],
            "stop_reason": reason,
            "usage": {"input_tokens": counts[0], "output_tokens": counts[1]},
        }
    else:
        spelled = {"tool_call": "tool_calls"}.get(reason, reason) if reason else None
        choice = {"index": 0, "message": {**message, "content": text}, "finish_reason": spelled}
        body = {"choices": [choice]}
        if any(isinstance(count, int) for count in counts):
            body["usage"] = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
    return Record(url, request, body=json.dumps(body), lacks_reason=lacks_reason)
