"""Connections of a probe to a server that may be faulty or hostile; limits what it sends.

Redirects are never followed, so that they do not receive the key. Runs on the loop of whoever
probes.
"""

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from api.conformance.probe.asking.access import Access
from api.conformance.probe.asking.end_marks import EndMark

# A whole answer to a check has a few hundred kilobytes at most.
MOST_BODY_BYTES = 2 * 1024 * 1024
_REDIRECTS = range(300, 400)


def open_session(access: Access) -> aiohttp.ClientSession:
    """Return a session that keeps no connections and no cookies, and does not decompress.

    Raises:
        OSError: The file of certificates cannot be read, or is not one.
    """
    return aiohttp.ClientSession(
        # After a hang-up, a server may close a kept connection during the next request.
        connector=aiohttp.TCPConnector(force_close=True, ssl=access.tls()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        # A few compressed kilobytes can expand to gigabytes.
        auto_decompress=False,
        headers={"accept-encoding": "identity"},
    )


@dataclass(slots=True)
class Received:
    """The body of an answer as it arrives.

    Attributes:
        content: Its bytes.
        first_at_s: When the first byte arrived, on the monotonic clock; None before.
        is_left_open: Whether the connection stayed open after the end of a stream.
    """

    content: bytearray = field(default_factory=bytearray)
    first_at_s: float | None = None
    is_left_open: bool = False


async def read_body(
    response: aiohttp.ClientResponse,
    received: Received,
    mark: EndMark | None = None,
    grace_s: float = 0.0,
) -> str:
    """Read the body of an answer.

    Args:
        response: The answer; its headers have arrived.
        received: Receives the bytes as they arrive, so that they are available if time runs out.
        mark: Recognises the end of a stream; None reads until the connection ends.
        grace_s: How long the connection may stay open after that end.

    Returns:
        Why it is incomplete or unusable; empty if it is neither.
    """
    if response.status in _REDIRECTS:
        where = response.headers.get("location", "")
        return f"it redirects to {where[:200] or 'nowhere'}; give that address if you trust it"
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        return f"the answer is compressed ({packed[:40]}), which was not requested"
    content = received.content
    while True:
        is_over = mark is not None and mark.look(content)
        try:
            async with asyncio.timeout(grace_s if is_over else None) as grace:
                part = await response.content.readany()
        except TimeoutError:
            if not grace.expired():
                raise
            received.is_left_open = True
            return ""
        if not part:
            return ""
        if received.first_at_s is None:
            received.first_at_s = time.monotonic()
        content += part[: MOST_BODY_BYTES + 1 - len(content)]
        if len(content) > MOST_BODY_BYTES:
            del content[MOST_BODY_BYTES:]
            return f"the answer is longer than {MOST_BODY_BYTES >> 20} MiB"
