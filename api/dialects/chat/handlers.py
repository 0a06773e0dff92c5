"""The Chat Completions route. Runs on the server's loop."""

from aiohttp import web

from api.dialects.chat.read import requests_from_wire, response_to_wire
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.chat.write import ChatEncoder
from api.dialects.openai.answering import Completing

_CHAT = Completing(
    ChatCompletionParams, "chatcmpl-", requests_from_wire, ChatEncoder, response_to_wire
)


async def create_chat_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/chat/completions``."""
    return await _CHAT.answer(request)
