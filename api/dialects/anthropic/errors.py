"""Failures in Anthropic's error format. Pure; any thread.

https://docs.claude.com/en/api/errors
"""

from collections.abc import Mapping

from api.dialects.anthropic.answers import MessageError, MessageErrorAnswer, MessageErrorType
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, status_of

_TYPES: Mapping[ErrorKind, MessageErrorType] = {
    ErrorKind.INVALID_REQUEST: "invalid_request_error",
    ErrorKind.AUTHENTICATION: "authentication_error",
    ErrorKind.PERMISSION: "permission_error",
    ErrorKind.NOT_FOUND: "not_found_error",
    ErrorKind.METHOD_NOT_ALLOWED: "invalid_request_error",
    ErrorKind.TIMEOUT: "timeout_error",
    ErrorKind.TOO_LARGE: "request_too_large",
    ErrorKind.UNSUPPORTED_ENCODING: "invalid_request_error",
    ErrorKind.RATE_LIMITED: "rate_limit_error",
    ErrorKind.NO_MODEL: "overloaded_error",
    ErrorKind.OVERLOADED: "overloaded_error",
    ErrorKind.UNAVAILABLE: "api_error",
    ErrorKind.INTERNAL: "api_error",
}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, MessageErrorAnswer]:
    """Return the status and the body of an error answer, which is also the ``error`` event."""
    type_ = _TYPES[error.kind]
    status = 529 if type_ == "overloaded_error" else status_of(error.kind)
    inner: MessageError = {"type": type_, "message": _message(error)}
    if error.details is not None:
        inner["details"] = dict(error.details)
    return status, {"type": "error", "error": inner, "request_id": request_id}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for exactly these words.
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.most_tokens} maximum"
    path = ".".join(str(part) for part in error.field)
    return f"{path}: {error.message}" if path else error.message
