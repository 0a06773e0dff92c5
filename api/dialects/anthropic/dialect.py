"""Anthropic's Messages API. ``count_tokens`` runs on the server's loop.

https://docs.claude.com/en/api/messages
"""

from api.dialects.anthropic.read import prompt_from_wire, request_body, requests_from_wire
from api.dialects.anthropic.wire import (
    CountTokensParams,
    MessageAnswer,
    MessageCreateParams,
    MessageErrorAnswer,
)
from api.dialects.anthropic.write import MessageEncoder, error_to_wire, write_message
from api.dialects.shared.dialect import AnswerRoute, Dialect, ParsedRequest, query
from api.service.models import address_requests, check_model


@query(
    "POST",
    "/v1/messages/count_tokens",
    request=CountTokensParams,
    read=prompt_from_wire,
    answer=dict[str, int],
)
async def count_tokens(request: ParsedRequest[CountTokensParams]) -> dict[str, int]:
    """The number of tokens of a Messages prompt."""
    service, model = request.service, request.params.model
    check_model(service, model)
    [prompt] = address_requests(service, request.generations, model)
    return {"input_tokens": await service.engine.count_tokens(prompt)}


MESSAGES = Dialect(
    name="Messages",
    title="Anthropic Messages",
    vendor="Anthropic",
    error_type=MessageErrorAnswer,
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        "stops.strings": "stop_sequences",
        "stops.token_ids": "stop_token_ids",
        "constraint.json_schema": "output_config.format.schema",
        "constraint": "output_config.format",
        "thinking_budget": "thinking.budget_tokens",
    },
    routes=(
        AnswerRoute(
            path="/v1/messages",
            summary="Anthropic Messages",
            request=MessageCreateParams,
            answer=MessageAnswer,
            read=requests_from_wire,
            write_whole=write_message,
            encoder=MessageEncoder,
            id_prefix="msg_",
        ),
        count_tokens,
    ),
)
