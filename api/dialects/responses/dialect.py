"""OpenAI's Responses API as one value, from which the server is built. Pure; any thread."""

from api.dialects.openai.read import form_names
from api.dialects.openai.wire import ErrorAnswer
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.responses.read import ask, requests_from_wire, summary_asked
from api.dialects.responses.stored import (
    compact,
    count_input,
    delete,
    keeper,
    list_input_items,
    recall,
    retrieve,
)
from api.dialects.responses.wire import (
    CompactedResponse,
    CompactParams,
    DeletedResponse,
    InputTokens,
    ItemList,
    ResponseAnswer,
    ResponseEvent,
    ResponseParams,
)
from api.dialects.responses.write import ResponseEncoder, answer_id, write_response
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute

DIALECT = Dialect(
    name="Responses",
    title="OpenAI Responses",
    vendor="OpenAI",
    reference="https://platform.openai.com/docs/api-reference/responses",
    render_error=error_to_wire,
    error_type=ErrorAnswer,
    field_names={
        **FIELD_NAMES,
        "tool_choice.name": "tool_choice",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "constraint.json_schema": "text.format.schema",
        "constraint": "text.format",
    },
    ask=ask,
    answers=(
        AnswerRoute(
            path="/v1/responses",
            summary="OpenAI Responses",
            request=ResponseParams,
            read=requests_from_wire,
            answer=ResponseAnswer,
            write_whole=write_response,
            event=ResponseEvent,
            encoder=ResponseEncoder,
            own_names=form_names,
            recall=recall,
            keeper=keeper,
            answer_id=answer_id,
            has_instructions=lambda params: bool(params.instructions),
        ),
    ),
    queries=(
        QueryRoute(
            method="POST",
            path="/v1/responses/input_tokens",
            summary="The number of tokens of a Responses prompt",
            request=ResponseParams,
            read=requests_from_wire,
            reply=count_input,
            answer=InputTokens,
            recall=recall,
        ),
        QueryRoute(
            method="POST",
            path="/v1/responses/compact",
            summary="A long conversation as its questions and a summary",
            request=CompactParams,
            read=summary_asked,
            reply=compact,
            answer=CompactedResponse,
            recall=recall,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}",
            summary="A response that is kept",
            reply=retrieve,
            answer=ResponseAnswer,
        ),
        QueryRoute(
            method="DELETE",
            path="/v1/responses/{response_id}",
            summary="Deletes a response that is kept",
            reply=delete,
            answer=DeletedResponse,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}/input_items",
            summary="What a kept response answered",
            reply=list_input_items,
            answer=ItemList,
        ),
    ),
)
