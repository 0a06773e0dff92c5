"""The Completions route. Runs on the server's loop."""

from aiohttp import web

from api.dialects.completions.read import requests_from_wire, response_to_wire
from api.dialects.completions.wire import CompletionParams
from api.dialects.completions.write import CompletionEncoder
from api.dialects.openai.answering import Completing

_COMPLETIONS = Completing(
    CompletionParams, "cmpl-", requests_from_wire, CompletionEncoder, response_to_wire
)


async def create_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/completions``."""
    return await _COMPLETIONS.answer(request)
