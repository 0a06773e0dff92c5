import pytest

from api.dialects.anthropic.dialect import error_to_wire as messages_error
from api.service.errors import ApiError, ErrorKind, from_engine
from engine.errors import InvalidRequest


@pytest.mark.parametrize(
    ("kind", "status", "type_"),
    [
        (ErrorKind.INVALID_REQUEST, 400, "invalid_request_error"),
        (ErrorKind.AUTHENTICATION, 401, "authentication_error"),
        (ErrorKind.PERMISSION, 403, "permission_error"),
        (ErrorKind.NOT_FOUND, 404, "not_found_error"),
        (ErrorKind.METHOD_NOT_ALLOWED, 405, "invalid_request_error"),
        (ErrorKind.TIMEOUT, 408, "timeout_error"),
        (ErrorKind.TOO_LARGE, 413, "request_too_large"),
        (ErrorKind.UNSUPPORTED_ENCODING, 415, "invalid_request_error"),
        (ErrorKind.RATE_LIMITED, 429, "rate_limit_error"),
        (ErrorKind.INTERNAL, 500, "api_error"),
        (ErrorKind.UNAVAILABLE, 503, "api_error"),
        (ErrorKind.NO_MODEL, 529, "overloaded_error"),
        (ErrorKind.OVERLOADED, 529, "overloaded_error"),
    ],
)
def test_messages_has_a_status_and_a_type_for_each_error(
    kind: ErrorKind, status: int, type_: str
) -> None:
    error = ApiError(kind, "is wrong", field=("messages", 0, "content"))

    assert messages_error(error, "req_1") == (
        status,
        {
            "type": "error",
            "error": {"type": type_, "message": "messages.0.content: is wrong"},
            "request_id": "req_1",
        },
    )


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("stops.token_ids", ("stop_token_ids",)),
        ("stops.token_ids[2]", ("stop_token_ids", 2)),
        ("stops.min_tokens", ("min_tokens",)),
        ("sampling.temperature", ("temperature",)),
        ("max_tokens", ("max_tokens",)),
    ],
)
def test_the_engines_names_of_fields_become_those_of_the_client(
    field: str, path: tuple[str | int, ...]
) -> None:
    names = {"stops.token_ids": "stop_token_ids"}

    assert from_engine(InvalidRequest(field, "is wrong"), names).field == path
