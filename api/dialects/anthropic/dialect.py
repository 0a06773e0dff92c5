"""Anthropic's Messages API. ``count_tokens`` runs on the server's loop.

https://docs.claude.com/en/api/messages
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from api.dialects.anthropic.read import prompt_from_wire, request_body, requests_from_wire
from api.dialects.anthropic.wire import (
    CountTokensParams,
    MessageAnswer,
    MessageCreateParams,
    MessageErrorAnswer,
)
from api.dialects.anthropic.write import MessageEncoder, error_to_wire, write_message
from api.dialects.shared.dialect import AnswerRoute, Dialect, query
from api.dialects.shared.requests import ParsedRequest
from api.service.models import address_requests, check_model
from api.service.record import RequestRecord
from api.service.service import Service
from engine import GenerationRequest


class MessagesRoute(AnswerRoute[MessageCreateParams]):
    """``POST /v1/messages``."""

    path = "/v1/messages"
    summary = "Anthropic Messages"
    request = MessageCreateParams
    answer = MessageAnswer
    id_prefix = "msg_"
    read = staticmethod(requests_from_wire)
    write_whole = staticmethod(write_message)
    encoder = staticmethod(MessageEncoder)


def read_counted(params: CountTokensParams, *, strict: bool) -> Sequence[GenerationRequest]:
    """Return the request whose prompt is counted."""
    return [prompt_from_wire(params)]


@query(
    "POST",
    "/v1/messages/count_tokens",
    request=CountTokensParams,
    read=read_counted,
    answer=dict[str, int],
)
async def count_tokens(
    service: Service, record: RequestRecord, body: ParsedRequest[CountTokensParams]
) -> dict[str, int]:
    """The number of tokens of a Messages prompt."""
    check_model(service, body.params.model)
    [prompt] = address_requests(service, body.generations, body.params.model)
    return {"input_tokens": await service.engine.count_tokens(prompt)}


class Messages(Dialect):
    """Anthropic's Messages API."""

    name = "Messages"
    title = "Anthropic Messages"
    vendor = "Anthropic"
    error_type = MessageErrorAnswer
    field_names: ClassVar[Mapping[str, str]] = {
        "stops.strings": "stop_sequences",
        "stops.token_ids": "stop_token_ids",
        "constraint.json_schema": "output_config.format.schema",
        "constraint": "output_config.format",
        "thinking_budget": "thinking.budget_tokens",
    }
    answers = (MessagesRoute(),)
    queries = (count_tokens,)
    render_error = staticmethod(error_to_wire)
    request_body = staticmethod(request_body)
