"""A tool server at an address: streamable HTTP with its headers and size limits.

Tool thread. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from app.desktop.tools.allowance import Allowance, Flooding

MOST_ANSWER_BYTES = 16 << 20
_CONNECTS_WITHIN_S = 15.0


@asynccontextmanager
async def address_transport(
    url: str, headers: Mapping[str, str], call_time_out_s: float
) -> AsyncIterator[Any]:
    """Yield the streams of messages from and to a server.

    Args:
        url: Its address.
        headers: Sent with each request.
        call_time_out_s: The longest silence within an answer.
    """
    timeout = httpx2.Timeout(_CONNECTS_WITHIN_S, read=call_time_out_s + 30)
    client = httpx2.AsyncClient(
        # A compressed answer of a few KB may become gigabytes, so compression is refused.
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        transport=_Bounded(httpx2.AsyncHTTPTransport()),
    )
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MOST_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


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
            raise httpx2.ReadError("it compresses its answers, which was not requested")
        is_stream = "text/event-stream" in answer.headers.get("content-type", "")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = _BoundedStream(
            answer.stream, self._bytes, None if is_stream else MOST_ANSWER_BYTES
        )
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, allowance: Allowance, most_bytes: int | None
    ) -> None:
        self._inner = inner
        self._allowance = allowance
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            try:
                self._allowance.take(len(piece))
            except Flooding as flooding:
                raise httpx2.ReadError(str(flooding)) from flooding
            if self._left is not None:
                self._left -= len(piece)
                if self._left < 0:
                    size = MOST_ANSWER_BYTES >> 20
                    raise httpx2.ReadError(f"it sent an answer of more than {size} MB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
