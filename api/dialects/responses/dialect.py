"""OpenAI's Responses API as one value, from which the server is built. Pure; any thread."""

from api.dialects.openai.answers import ErrorAnswer
from api.dialects.openai.errors import FIELD_NAMES, error_to_wire
from api.dialects.openai.output_format import form_names
from api.dialects.responses import compacting, memory
from api.dialects.responses.answers import ResponseAnswer
from api.dialects.responses.ask import ask
from api.dialects.responses.asking_summary import summary_asked
from api.dialects.responses.read import requests_from_wire
from api.dialects.responses.stream import ResponseEncoder
from api.dialects.responses.stream_events import ResponseEvent
from api.dialects.responses.wire import CompactParams, ResponseParams
from api.dialects.responses.write import answer_id, write_response
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
            recall=memory.recall,
            keeper=memory.keeper,
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
            reply=memory.count_input,
            answer=memory.InputTokens,
            recall=memory.recall,
        ),
        QueryRoute(
            method="POST",
            path="/v1/responses/compact",
            summary="A long conversation as its questions and a summary",
            request=CompactParams,
            read=summary_asked,
            reply=compacting.compact,
            answer=compacting.CompactedResponse,
            recall=memory.recall,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}",
            summary="A response that is kept",
            reply=memory.retrieve,
            answer=ResponseAnswer,
        ),
        QueryRoute(
            method="DELETE",
            path="/v1/responses/{response_id}",
            summary="Deletes a response that is kept",
            reply=memory.delete,
            answer=memory.DeletedResponse,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}/input_items",
            summary="What a kept response answered",
            reply=memory.list_input_items,
            answer=memory.ItemList,
        ),
    ),
)
