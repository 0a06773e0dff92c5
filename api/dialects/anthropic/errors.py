"""Failures in the words of Anthropic's error envelope. Pure; any thread.

https://docs.claude.com/en/api/errors
"""

from typing import assert_never

from api.dialects.anthropic.answers import MessageError, MessageErrorAnswer, MessageErrorType
from api.transport.errors import ApiError, ContextOverflow, ErrorKind


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, MessageErrorAnswer]:
    """Return the status and the body of an error answer, which is also the ``error`` event."""
    status, type_ = _status_and_type(error.kind)
    inner: MessageError = {"type": type_, "message": _message(error)}
    if error.details is not None:
        inner["details"] = dict(error.details)
    return status, {"type": "error", "error": inner, "request_id": request_id}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for these very words.
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.most_tokens} maximum"
    path = ".".join(str(part) for part in error.field)
    return f"{path}: {error.message}" if path else error.message


def _status_and_type(kind: ErrorKind) -> tuple[int, MessageErrorType]:
    match kind:
        case ErrorKind.INVALID_REQUEST:
            return 400, "invalid_request_error"
        case ErrorKind.AUTHENTICATION:
            return 401, "authentication_error"
        case ErrorKind.PERMISSION:
            return 403, "permission_error"
        case ErrorKind.NOT_FOUND:
            return 404, "not_found_error"
        case ErrorKind.METHOD_NOT_ALLOWED:
            return 405, "invalid_request_error"
        case ErrorKind.TIMEOUT:
            return 408, "timeout_error"
        case ErrorKind.TOO_LARGE:
            return 413, "request_too_large"
        case ErrorKind.UNSUPPORTED_ENCODING:
            return 415, "invalid_request_error"
        case ErrorKind.RATE_LIMITED:
            return 429, "rate_limit_error"
        case ErrorKind.NO_MODEL:
            return 529, "overloaded_error"
        case ErrorKind.UNAVAILABLE:
            return 503, "api_error"
        case ErrorKind.INTERNAL:
            return 500, "api_error"
        case _:
            assert_never(kind)
