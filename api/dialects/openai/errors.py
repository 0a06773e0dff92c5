"""Failures in the words of OpenAI's error envelope. Pure; any thread.

https://platform.openai.com/docs/guides/error-codes
"""

from typing import assert_never

from api.dialects.openai.answers import ErrorAnswer, ErrorType
from api.dialects.shared.errors import with_field
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, path_text, status_of

# The engine's names of fields that all three APIs spell in the same way.
FIELD_NAMES = {
    "stops.strings": "stop",
    "stops.token_ids": "stop_token_ids",
    "tool_choice.name": "tool_choice",
}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, ErrorAnswer]:
    """Return the status and the body of an error answer; all four keys are always there."""
    type_, code = _type_and_code(error.kind)
    return status_of(error.kind), {
        "error": {
            "message": _message(error),
            "type": type_,
            "param": path_text(error.field) or None,
            "code": error.code or code,
        }
    }


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for these very words. Some look for the code in them as well, which the
        # vendor's own library has not put there since version 3.
        return (
            f"This model's maximum context length is {error.most_tokens} tokens. However, your "
            f"messages resulted in {error.prompt_tokens} tokens. Please reduce the length of the "
            f"messages. ({error.code})"
        )
    return with_field(error)


def _type_and_code(kind: ErrorKind) -> tuple[ErrorType, str | None]:
    match kind:
        case ErrorKind.INVALID_REQUEST:
            return "invalid_request_error", None
        case ErrorKind.AUTHENTICATION:
            return "invalid_request_error", "invalid_api_key"
        case ErrorKind.PERMISSION:
            return "permission_error", "forbidden"
        case ErrorKind.NOT_FOUND:
            return "invalid_request_error", "not_found"
        case ErrorKind.METHOD_NOT_ALLOWED:
            return "invalid_request_error", "method_not_allowed"
        case ErrorKind.TIMEOUT:
            return "invalid_request_error", "request_timeout"
        case ErrorKind.TOO_LARGE:
            return "invalid_request_error", "request_too_large"
        case ErrorKind.UNSUPPORTED_ENCODING:
            return "invalid_request_error", "unsupported_encoding"
        case ErrorKind.RATE_LIMITED:
            return "rate_limit_error", "rate_limit_exceeded"
        case ErrorKind.NO_MODEL:
            return "server_error", "no_model_loaded"
        case ErrorKind.UNAVAILABLE:
            return "server_error", "service_unavailable"
        case ErrorKind.INTERNAL:
            return "server_error", None
        case _:
            assert_never(kind)
