"""Failures in OpenAI's error format. Pure; any thread.

https://platform.openai.com/docs/guides/error-codes
"""

from collections.abc import Mapping

from api.dialects.openai.answers import ErrorAnswer, ErrorType
from api.dialects.shared.answers.errors import with_field
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, path_text, status_of

# The engine's fields that all three APIs spell the same.
FIELD_NAMES = {
    "stops.strings": "stop",
    "stops.token_ids": "stop_token_ids",
}

_TYPES_AND_CODES: Mapping[ErrorKind, tuple[ErrorType, str | None]] = {
    ErrorKind.INVALID_REQUEST: ("invalid_request_error", None),
    ErrorKind.AUTHENTICATION: ("invalid_request_error", "invalid_api_key"),
    ErrorKind.PERMISSION: ("permission_error", "forbidden"),
    ErrorKind.NOT_FOUND: ("invalid_request_error", "not_found"),
    ErrorKind.METHOD_NOT_ALLOWED: ("invalid_request_error", "method_not_allowed"),
    ErrorKind.TIMEOUT: ("invalid_request_error", "request_timeout"),
    ErrorKind.TOO_LARGE: ("invalid_request_error", "request_too_large"),
    ErrorKind.UNSUPPORTED_ENCODING: ("invalid_request_error", "unsupported_encoding"),
    ErrorKind.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
    ErrorKind.NO_MODEL: ("server_error", "no_model_loaded"),
    ErrorKind.OVERLOADED: ("server_error", "memory_short"),
    ErrorKind.UNAVAILABLE: ("server_error", "service_unavailable"),
    ErrorKind.INTERNAL: ("server_error", None),
}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, ErrorAnswer]:
    """Return the status and the body of an error answer; all four keys are always present."""
    type_, code = _TYPES_AND_CODES[error.kind]
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
        # Clients look for exactly these words. Some also look for the code in them, which the
        # vendor's own library no longer adds since version 3.
        return (
            f"This model's maximum context length is {error.most_tokens} tokens. However, your "
            f"messages resulted in {error.prompt_tokens} tokens. Please reduce the length of the "
            f"messages. ({error.code})"
        )
    return with_field(error)
