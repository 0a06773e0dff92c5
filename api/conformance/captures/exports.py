"""Finds answers in what others export: LiteLLM's logs, Postman, Langfuse, spans, mitmproxy.

Pure; any thread.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import end_of_object, parsed
from api.conformance.captures.readers import MESSAGES_REASONS
from api.conformance.captures.recordings import Record

_BEGINNING_CHARS = 256 * 1024


def exported(text: str) -> Iterator[Record] | None:
    """Return the records of an export; None if a text is not one that is known."""
    beginning = text[:_BEGINNING_CHARS]
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
        asked = list(_STOPS.finditer(text, max(begin, at - _BEGINNING_CHARS), at))
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
