"""The Completions route. Runs on the server's loop."""

from aiohttp import web

from api.openai.answering import Completing
from api.openai.completions.convert import requests_from_wire, response_to_wire
from api.openai.completions.stream import CompletionEncoder
from api.openai.completions.wire import CompletionParams

_COMPLETIONS = Completing(
    CompletionParams, "cmpl-", requests_from_wire, CompletionEncoder, response_to_wire
)


async def create_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/completions``."""
    return await _COMPLETIONS.answer(request)
