"""Saved answers in the formats of other programs, written as those programs write them."""

import json
from collections.abc import Iterable
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
    """Return an archive (HAR) of a page's script and of answers: status, content, address."""
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


def netstring(value: Any) -> bytes:
    """Return a value as mitmproxy writes it, as its ``tnetstring`` does."""
    match value:
        case bytes():
            raw, mark = value, b","
        case str():
            raw, mark = value.encode(), b";"
        case None:
            raw, mark = b"", b"~"
        case bool():
            raw, mark = str(value).lower().encode(), b"!"
        case int():
            raw, mark = str(value).encode(), b"#"
        case float():
            raw, mark = repr(value).encode(), b"^"
        case list():
            raw, mark = b"".join(map(netstring, value)), b"]"
        case _:
            raw = b"".join(netstring(key) + netstring(one) for key, one in value.items())
            mark = b"}"
    return b"%d:%s%s" % (len(raw), raw, mark)


def flow(body: bytes, *headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {
        "version": 21,
        "type": "http",
        "id": "1",
        "error": None,
        "client_conn": {"tls": False, "timestamp_start": 1.5, "alpn": None},
        "request": {
            "method": b"POST",
            "scheme": b"http",
            "host": "localhost",
            "port": 8080,
            "path": b"/v1/chat/completions",
            "headers": [[b"host", b"localhost"]],
            "content": BODY.encode(),
        },
        "response": {
            "status_code": status,
            "reason": b"OK",
            "headers": [list(pair) for pair in headers],
            "content": body,
        },
    }


def trace(head: bytes, pieces: Iterable[bytes], *, is_hex: bool = False) -> str:
    """Return curl's trace of one request, as its ``tool_cb_dbg.c`` writes it."""
    asked = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n"
    lines = ["== Info:   Trying 127.0.0.1:8080..."]
    lines += _traced("=> Send header", asked, is_hex)
    lines += _traced("=> Send data", BODY.encode(), is_hex)
    for line in (*head.split(b"\n"), b""):
        lines += _traced("<= Recv header", line + b"\r\n", is_hex)
    for piece in pieces:
        lines += _traced("<= Recv data", piece, is_hex)
    return "\n".join([*lines, "== Info: Connection #0 left intact", ""])


def _traced(kind: str, sent: bytes, is_hex: bool) -> list[str]:
    lines = [f"{kind}, {len(sent)} bytes (0x{len(sent):x})"]
    width = 0x10 if is_hex else 0x40
    at = 0
    while at < len(sent):
        row = f"{at:04x}: "
        if is_hex:
            row += "".join(f"{byte:02x} " for byte in sent[at : at + width])
            row += "   " * (width - len(sent[at : at + width]))
        step = width
        for count, byte in enumerate(sent[at : at + width]):
            if not is_hex and sent[at + count : at + count + 2] == b"\r\n":
                step = count + 2
                break
            row += chr(byte) if 0x20 <= byte < 0x80 else "."
            if not is_hex and sent[at + count + 1 : at + count + 3] == b"\r\n":
                step = count + 3
                break
        lines.append(row)
        at += step
    return lines
