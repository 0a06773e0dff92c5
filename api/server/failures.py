"""Answers a request that failed, in its dialect's envelope. Runs on the server's loop."""

import math

from aiohttp import web

from api.dialects.shared.dialect import Dialect
from api.transport.errors import ApiError, is_permanent
from api.transport.json_text import json_text

# Vendors' clients obey it: https://github.com/openai/openai-python (``_should_retry``).
SHOULD_RETRY = "x-should-retry"


def failure_response(
    dialect: Dialect, error: ApiError, request_id: str, *, status: int | None = None
) -> web.Response:
    """Return the answer to a request that failed.

    It tells clients when trying again makes sense, and where it never does.

    Args:
        dialect: Whose words the answer is in.
        error: What went wrong.
        request_id: The request's id, empty where it has none.
        status: Another status than the dialect's own.
    """
    usual, body = dialect.render_error(error, request_id)
    response = web.json_response(body, status=status or usual, dumps=json_text)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if is_permanent(response.status):
        response.headers[SHOULD_RETRY] = "false"
    return response
