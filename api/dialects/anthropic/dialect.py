"""Anthropic's Messages API as one value, from which the server is built. Pure; any thread."""

from api.dialects.anthropic.read import ask, counted_from_wire, requests_from_wire
from api.dialects.anthropic.wire import (
    CountTokensParams,
    MessageAnswer,
    MessageCreateParams,
    MessageErrorAnswer,
    MessageEvent,
    TokenCount,
)
from api.dialects.anthropic.write import (
    CALL_PREFIX,
    MessageEncoder,
    answer_id,
    count_tokens,
    error_to_wire,
    write_message,
)
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute

DIALECT = Dialect(
    name="Messages",
    title="Anthropic Messages",
    vendor="Anthropic",
    reference="https://docs.claude.com/en/api/messages",
    render_error=error_to_wire,
    error_type=MessageErrorAnswer,
    field_names={
        "stops.strings": "stop_sequences",
        "stops.token_ids": "stop_token_ids",
        "constraint.json_schema": "output_config.format.schema",
        "constraint": "output_config.format",
        "thinking_budget": "thinking.budget_tokens",
    },
    ask=ask,
    answers=(
        AnswerRoute(
            path="/v1/messages",
            summary="Anthropic Messages",
            request=MessageCreateParams,
            read=requests_from_wire,
            answer=MessageAnswer,
            write_whole=write_message,
            event=MessageEvent,
            encoder=MessageEncoder,
            answer_id=answer_id,
            call_prefix=CALL_PREFIX,
            has_instructions=lambda params: bool(params.system),
        ),
    ),
    queries=(
        QueryRoute(
            method="POST",
            path="/v1/messages/count_tokens",
            summary="The number of tokens of a Messages prompt",
            request=CountTokensParams,
            read=counted_from_wire,
            reply=count_tokens,
            answer=TokenCount,
        ),
    ),
)
