"""Failures in SGLang's error format. Pure; any thread."""

from api.dialects.sglang.wire import SglangErrorAnswer
from api.dialects.shared.answers.errors import with_field
from api.transport.errors import ApiError, ContextOverflow, path_text, status_of


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, SglangErrorAnswer]:
    """Return the status and the body of an error answer."""
    status = status_of(error.kind)
    return status, {
        "error": {
            "message": _message(error),
            "type": error.kind.value,
            "param": path_text(error.field) or None,
            "code": status,
        }
    }


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for exactly these words.
        return (
            f"The input ({error.prompt_tokens} tokens) is longer than the model's context length "
            f"({error.most_tokens} tokens)."
        )
    return with_field(error)
