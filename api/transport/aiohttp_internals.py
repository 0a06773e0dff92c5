"""The only module that uses private parts of aiohttp. Each is a workaround.

Checked with aiohttp 3.14.5, whose source is at
https://github.com/aio-libs/aiohttp/tree/v3.14.5/aiohttp.
``tests/test_private_parts.py`` fails, and names the part, when one changes.
"""

from aiohttp import web


def keep_body(request: web.Request, body: bytes) -> None:
    """Make these bytes the body of a request for everybody who asks for it from now on.

    ``Request.read`` cannot bound the memory and the time that a body takes, and unpacks it without
    a bound, so the body is read elsewhere; handlers then find it where aiohttp keeps what it has
    read.
    Upstream: ``BaseRequest.read`` in ``aiohttp/web_request.py``.
    """
    request._read_bytes = body
