"""Answers a request that failed, in its dialect's envelope. Runs on the server's loop."""

import math

from aiohttp import web

from api.dialects.shared.dialect import Dialect
from api.transport.errors import ApiError, is_permanent
from api.transport.json_text import json_text

# The vendors' clients follow this header: https://github.com/openai/openai-python
# (``_should_retry``).
SHOULD_RETRY = "x-should-retry"


def failure_response(
    dialect: Dialect, error: ApiError, request_id: str, *, status: int | None = None
) -> web.Response:
    """Return the answer to a request that failed.

    Its headers tell clients whether a retry can succeed, and when.
    """
    usual, body = dialect.render_error(error, request_id)
    response = web.json_response(body, status=status or usual, dumps=json_text)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if is_permanent(response.status):
        response.headers[SHOULD_RETRY] = "false"
    return response
