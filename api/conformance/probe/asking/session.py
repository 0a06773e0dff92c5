"""Connections of a probe to a server that may be broken or hostile: what it sends is bounded.

A key never follows a redirect: none is followed. Runs on the loop of whoever probes.
"""

import aiohttp

# A whole answer of a check has some hundreds of kilobytes at most.
MOST_BODY_BYTES = 2 * 1024 * 1024
_REDIRECTS = range(300, 400)


def open_session() -> aiohttp.ClientSession:
    """Return a session that keeps no connection, no cookie, and unpacks nothing."""
    return aiohttp.ClientSession(
        # After a hang-up a server may close a kept connection under the next request.
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        # A few kilobytes can be packed so that they become gigabytes.
        auto_decompress=False,
        headers={"accept-encoding": "identity"},
    )


async def read_body(response: aiohttp.ClientResponse, received: bytearray) -> str:
    """Read the body of an answer.

    Args:
        response: The answer; its headers have arrived.
        received: Gets the bytes as they come, so that they are there if time runs out.

    Returns:
        Why it is not whole, or not usable; empty where it is.
    """
    if response.status in _REDIRECTS:
        where = response.headers.get("location", "")
        return f"it redirects to {where[:200] or 'nowhere'}; give that address if you trust it"
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        return f"the answer is compressed ({packed[:40]}), which was not requested"
    async for part in response.content.iter_any():
        received += part[: MOST_BODY_BYTES + 1 - len(received)]
        if len(received) > MOST_BODY_BYTES:
            del received[MOST_BODY_BYTES:]
            return f"the answer is longer than {MOST_BODY_BYTES >> 20} MiB"
    return ""
