"""Requests of Chat Completions, on the wire and for the engine."""

from typing import Any

from api.dialects.chat.read import requests_from_wire
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.shared.body import parsed
from api.transport.answer_text import json_text
from engine.values.request import GenerationRequest


def params(**fields: Any) -> ChatCompletionParams:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    return parsed(json_text({**body, **fields}).encode(), ChatCompletionParams)


def request(**fields: Any) -> GenerationRequest:
    return requests_from_wire(params(**fields))[0]
