"""The Completions route. Runs on the server's loop."""

from aiohttp import web

from api.dialects.completions.convert import requests_from_wire, response_to_wire
from api.dialects.completions.stream import CompletionEncoder
from api.dialects.completions.wire import CompletionParams
from api.dialects.openai.answering import Completing

_COMPLETIONS = Completing(
    CompletionParams, "cmpl-", requests_from_wire, CompletionEncoder, response_to_wire
)


async def create_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/completions``."""
    return await _COMPLETIONS.answer(request)
