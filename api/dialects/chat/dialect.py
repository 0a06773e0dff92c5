"""OpenAI's Chat Completions API as one value, from which the server is built. Pure; any thread."""

from collections.abc import Mapping

from api.dialects.chat.ask import ask
from api.dialects.chat.read import requests_from_wire
from api.dialects.chat.tokens import ROUTES as TOKENS
from api.dialects.chat.wire import ChatCompletion, ChatCompletionParams, ChatEvent
from api.dialects.chat.write import ChatEncoder, answer_id, write_completion
from api.dialects.openai.answers import ErrorAnswer
from api.dialects.openai.embeddings import ROUTES as EMBEDDINGS
from api.dialects.openai.errors import FIELD_NAMES, error_to_wire
from api.dialects.openai.output_format import form_names
from api.dialects.shared.dialect import AnswerRoute, Dialect


def _own_names(params: ChatCompletionParams) -> Mapping[str, str]:
    """Return this request's names of engine fields that have two names in this API."""
    if params.max_completion_tokens is None:
        return form_names(params)
    return {**form_names(params), "max_tokens": "max_completion_tokens"}


DIALECT = Dialect(
    name="Chat Completions",
    title="OpenAI Chat Completions",
    vendor="OpenAI",
    reference="https://platform.openai.com/docs/api-reference/chat",
    render_error=error_to_wire,
    error_type=ErrorAnswer,
    field_names={
        **FIELD_NAMES,
        "prompt_scoring.top": "prompt_logprobs",
        "tool_choice.name": "tool_choice",
        "constraint.json_schema": "response_format.json_schema.schema",
        "constraint": "response_format",
    },
    ask=ask,
    stream_fields={"stream_options": {"include_usage": True}},
    answers=(
        AnswerRoute(
            path="/v1/chat/completions",
            summary="OpenAI Chat Completions",
            request=ChatCompletionParams,
            read=requests_from_wire,
            answer=ChatCompletion,
            write_whole=write_completion,
            event=ChatEvent,
            encoder=ChatEncoder,
            own_names=_own_names,
            answer_id=answer_id,
        ),
    ),
    queries=(*TOKENS, *EMBEDDINGS),
)
