"""A plain HTTP client for the self-test: sends requests like the two vendors' clients.

Reads the streams with the standard library only and shares no code with the server. Blocks; any
thread.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT_S = 30.0
_MAX_TOKENS = 200


def messages_problem(url: str, question: str, stop: str, text: str) -> str | None:
    """Request a streamed Messages answer; return what is wrong with it, or None."""
    asked = {"stop_sequences": [stop]}
    status, frames = _streamed(url, "/v1/messages", question, asked)
    if status != http.client.OK:
        return f"status {status}: {frames}"
    events = [json.loads(frame) for frame in frames]
    said = "".join(
        event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta"
    )
    ends = [event["delta"] for event in events if event["type"] == "message_delta"]
    if not events or events[-1]["type"] != "message_stop":
        return "the stream does not end in message_stop"
    wanted = [("stop_sequence", stop)]
    found = [(end.get("stop_reason"), end.get("stop_sequence")) for end in ends]
    return _difference(said, text, found, wanted)


def chat_problem(url: str, question: str, stop: str, text: str) -> str | None:
    """Request a streamed Chat Completions answer; return the same as ``messages_problem``."""
    status, frames = _streamed(url, "/v1/chat/completions", question, {"stop": [stop]})
    if status != http.client.OK:
        return f"status {status}: {frames}"
    if not frames or frames[-1] != "[DONE]":
        return "the stream does not end in [DONE]"
    choices = [choice for frame in frames[:-1] for choice in json.loads(frame)["choices"]]
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    found = [
        (choice["finish_reason"], choice.get("matched_stop"))
        for choice in choices
        if choice["finish_reason"] is not None
    ]
    return _difference(said, text, found, [("stop", stop)])


def _difference(said: str, text: str, found: object, wanted: object) -> str | None:
    if said != text:
        return f"the answer was {said!r} instead of {text!r}"
    if found != wanted:
        return f"the reason was {found!r} instead of {wanted!r}"
    return None


def _streamed(url: str, path: str, question: str, options: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the status and the data of each event, or the body of a refusal."""
    body = {
        "model": "any",
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": True,
        "messages": [{"role": "user", "content": question}],
        **options,
    }
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        return answer.status, [text]
    lines = text.splitlines()
    return answer.status, [line.removeprefix("data: ") for line in lines if line.startswith("data")]
