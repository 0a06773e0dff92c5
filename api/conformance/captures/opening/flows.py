"""Dumps of mitmproxy (``mitmdump -w FILE``): a sequence of flows, written as tagged netstrings.

https://docs.mitmproxy.org/stable/concepts/filters/ and https://tnetstrings.info. Pure; any thread.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from api.conformance.captures.opening.record import Record, body_text

_LENGTH = re.compile(rb"(\d{1,10}):")
_MOST_LEVELS = 50
_MOST_VALUES = 2_000_000
_FIRST = re.compile(rb"\d{1,10}:\d{1,4}:[a-z_]+[;,]")


def is_flows(content: bytes) -> bool:
    """Whether bytes begin a dump: with a map whose first key is a word."""
    return _FIRST.match(content) is not None


def records_of(content: bytes) -> Iterator[Record]:
    """Yield the exchanges with models' APIs.

    Raises:
        ValueError: The dump is damaged.
    """
    reader = _Reader(content)
    at = 0
    while at < len(content):
        flow, at = reader.value(at, len(content))
        if isinstance(flow, dict) and _text(flow.get("type")) in ("http", ""):
            record = _record(flow)
            if record is not None and record.asks_a_model:
                yield record


def _record(flow: Mapping[str, Any]) -> Record | None:
    request = flow.get("request")
    if not isinstance(request, dict):
        return None
    asked, _ = body_text(
        _bytes(request.get("content")), _headers(request).get("content-encoding", "")
    )
    port = request.get("port")
    host = _text(request.get("host"))
    url = f"{_text(request.get('scheme'))}://{host}:{port}{_text(request.get('path'))}"
    response = flow.get("response")
    if not isinstance(response, dict):
        error = flow.get("error")
        why = _text(error.get("msg")) if isinstance(error, dict) else ""
        return Record(url, asked, problem=why or "no answer came")
    headers = _headers(response)
    body, problem = "", "the dump does not hold it"
    if response.get("content") is not None:
        body, problem = body_text(_bytes(response["content"]), headers.get("content-encoding", ""))
    status = response.get("status_code")
    return Record(url, asked, status if isinstance(status, int) else None, headers, body, problem)


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    pairs = message.get("headers")
    if not isinstance(pairs, list):
        return {}
    return {
        _text(pair[0]).lower(): _text(pair[1])
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2
    }


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


class _Reader:
    """Reads tagged netstrings: a length, a colon, that many bytes, and their type."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._values = 0

    def value(self, at: int, end: int, level: int = 0) -> tuple[Any, int]:
        """Return the value at an index, and the index of the next one.

        Args:
            at: The index.
            end: The end of the bytes that contain it.
            level: How deep it is nested in others.
        """
        found = _LENGTH.match(self._content, at, end)
        self._values += 1
        if found is None or level > _MOST_LEVELS or self._values > _MOST_VALUES:
            raise ValueError(f"there is no value at byte {at:,}")
        first = found.end()
        last = first + int(found[1])
        if last >= end:
            raise ValueError(f"it breaks off at byte {at:,}")
        match self._content[last : last + 1]:
            case b",":
                value: Any = self._content[first:last]
            case b";":
                value = self._content[first:last].decode("utf-8", "replace")
            case b"#":
                value = _number(self._content[first:last])
            case b"]":
                value = self._list(first, last, level)
            case b"}":
                parts = self._list(first, last, level)
                value = {_text(k): v for k, v in zip(parts[::2], parts[1::2], strict=False)}
            case _:
                # Floats, booleans and null are not needed here.
                value = None
        return value, last + 1

    def _list(self, at: int, end: int, level: int) -> list[Any]:
        values = []
        while at < end:
            value, at = self.value(at, end, level + 1)
            values.append(value)
        return values


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) < 20 else None
