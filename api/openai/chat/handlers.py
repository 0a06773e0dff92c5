"""The Chat Completions route. Runs on the server's loop."""

from aiohttp import web

from api.openai.answering import Completing
from api.openai.chat.convert import requests_from_wire, response_to_wire
from api.openai.chat.stream import ChatEncoder
from api.openai.chat.wire import ChatCompletionParams

_CHAT = Completing(
    ChatCompletionParams, "chatcmpl-", requests_from_wire, ChatEncoder, response_to_wire
)


async def create_chat_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/chat/completions``."""
    return await _CHAT.answer(request)
