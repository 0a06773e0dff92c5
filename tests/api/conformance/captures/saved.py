"""Saved answers: streams, whole bodies, archives (HAR)."""

import json
from typing import Any

STOP = "EN.D"
BODY = json.dumps({"messages": [], "stop": [STOP]})


def chunk(text: str, reason: str | None = None, *, name: str = "x", index: int = 0) -> str:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    return f"data: {json.dumps({'id': name, 'choices': [choice]}, ensure_ascii=False)}\n\n"


def stream(text: str = "A é👋 B", *, name: str = "x") -> str:
    pieces = (chunk(text[:3], name=name), chunk(text[3:], name=name))
    return "".join(pieces) + chunk("", "stop", name=name) + "data: [DONE]\n\n"


def whole(text: str = "A é👋 B", *, name: str = "x", reason: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": name,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }


def har(*answers: tuple[int, dict[str, Any], str]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [
        {
            "request": {"url": "http://localhost/app.js"},
            "response": {"status": 200, "content": {"text": 'data: {"choices": []}'}},
        }
    ]
    for status, content, url in answers:
        headers = [{"name": "Content-Type", "value": content.get("mimeType", "")}]
        entries.append(
            {
                "request": {"url": url, "postData": {"text": BODY}},
                "response": {"status": status, "headers": headers, "content": content},
            }
        )
    return {"log": {"version": "1.2", "entries": entries}, "more": 1}
