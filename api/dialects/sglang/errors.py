"""Failures in the words of SGLang's error envelope. Pure; any thread."""

from api.dialects.sglang.wire import SglangErrorAnswer
from api.transport.errors import ApiError, ContextOverflow, Dialect, path_text, status_of


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error answer."""
    status = status_of(error.kind)
    field = path_text(error.field) or None
    inner: dict[str, object] = {
        "message": _message(error),
        "type": error.kind.value,
        "param": field,
        "code": status,
    }
    return status, {"error": inner}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for these very words.
        return (
            f"The input ({error.prompt_tokens} tokens) is longer than the model's context length "
            f"({error.most_tokens} tokens)."
        )
    field = path_text(error.field)
    return f"{field}: {error.message}" if field else error.message


GENERATE = Dialect(
    name="Generate",
    render_error=error_to_wire,
    error_type=SglangErrorAnswer,
    field_names={
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint": "sampling_params.json_schema",
        # The one complaint under this name is that the prompt is empty.
        "messages": "text",
    },
)
