"""OpenAI's Completions API as one value, from which the server is built. Pure; any thread."""

from api.dialects.completions.read import ask, requests_from_wire
from api.dialects.completions.wire import Completion, CompletionEvent, CompletionParams
from api.dialects.completions.write import CompletionEncoder, answer_id, write_completion
from api.dialects.openai.read import form_names
from api.dialects.openai.wire import ErrorAnswer
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.shared.dialect import AnswerRoute, Dialect

DIALECT = Dialect(
    name="Completions",
    title="OpenAI Completions",
    vendor="OpenAI",
    reference="https://platform.openai.com/docs/api-reference/completions",
    render_error=error_to_wire,
    error_type=ErrorAnswer,
    field_names={
        **FIELD_NAMES,
        "messages": "prompt",
        "top_logprobs": "logprobs",
        "prompt_scoring.top": "prompt_logprobs",
    },
    ask=ask,
    stream_fields={"stream_options": {"include_usage": True}},
    answers=(
        AnswerRoute(
            path="/v1/completions",
            operation="text_completion",
            summary="OpenAI Completions",
            request=CompletionParams,
            read=requests_from_wire,
            answer=Completion,
            write_whole=write_completion,
            event=CompletionEvent,
            encoder=CompletionEncoder,
            answer_id=answer_id,
            own_names=form_names,
        ),
    ),
)
