"""A tool server at an address: streamable HTTP, or the older HTTP with SSE, with size limits.

Tool thread. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
and https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from app.desktop.tools.allowance import Allowance, Flooding

MOST_ANSWER_BYTES = 16 << 20
_CONNECTS_WITHIN_S = 15.0


@asynccontextmanager
async def address_transport(
    url: str, headers: Mapping[str, str], call_time_out_s: float
) -> AsyncIterator[Any]:
    """Yield the streams of messages from and to a server."""
    client = _client(headers, call_time_out_s)
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MOST_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_transport(
    url: str, headers: Mapping[str, str], call_time_out_s: float
) -> AsyncIterator[Any]:
    """Yield the streams of messages from and to a server; arguments as ``address_transport``."""

    def made(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(headers or {}, call_time_out_s)

    async with sse_client(url, dict(headers), httpx_client_factory=made) as streams:
        yield streams


def _client(headers: Mapping[str, str], call_time_out_s: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        # A compressed answer of a few KB may become gigabytes, so compression is refused.
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECTS_WITHIN_S, read=call_time_out_s + 30),
        transport=_Bounded(httpx2.AsyncHTTPTransport()),
    )


class AnswerRefused(httpx2.ReadError):
    """An answer breaks the limits; the message says how, as the end of a sentence."""


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends answers and streams that send too much."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self._bytes = Allowance(64 << 20, 8 << 20, "it floods its answers")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the answer's body is limited."""
        answer = await self._inner.handle_async_request(request)
        packing = answer.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("", "identity"):
            await answer.aclose()
            raise AnswerRefused("it compresses its answers, which was not requested")
        is_stream = "text/event-stream" in answer.headers.get("content-type", "")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = _BoundedStream(answer.stream, self._bytes, is_stream=is_stream)
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, allowance: Allowance, *, is_stream: bool
    ) -> None:
        self._inner = inner
        self._allowance = allowance
        self._is_stream = is_stream
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            try:
                self._allowance.take(len(piece))
            except Flooding as flooding:
                raise AnswerRefused(str(flooding)) from flooding
            # A stream has no end, but each of its events has.
            end = max(piece.rfind(b"\n\n"), piece.rfind(b"\r\n\r\n")) if self._is_stream else -1
            self._size = len(piece) - end if end >= 0 else self._size + len(piece)
            if self._size > MOST_ANSWER_BYTES:
                size = MOST_ANSWER_BYTES >> 20
                raise AnswerRefused(f"it sent an answer of more than {size} MB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
