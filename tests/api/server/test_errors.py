from typing import Any

import pytest

from api.dialects.anthropic.dialect import error_to_wire as messages_error
from api.dialects.openai.write import error_to_wire as chat_error
from api.transport.errors import ApiError, ErrorKind, failure_of, field_path, from_engine
from engine.errors import (
    EngineClosed,
    InvalidRequest,
    MemoryShort,
    ModelLoadFailed,
    NoModel,
    QueueFull,
    RequestCancelled,
    UnknownModel,
)
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage


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


@pytest.mark.parametrize("kind", ErrorKind)
def test_an_error_of_chat_always_has_all_four_keys(kind: ErrorKind) -> None:
    error = ApiError(kind, "is wrong", field=("messages", 0, "content"))
    status, body = chat_error(error, "req_1")
    inner: Any = body["error"]

    assert 400 <= status < 600
    assert inner.keys() == {"message", "type", "param", "code"}
    assert inner["param"] == "messages[0].content"
    assert inner["message"] == "messages[0].content: is wrong"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("stop", ("stop",)),
        ("stop[0]", ("stop", 0)),
        ("messages.1.content[0].text", ("messages", 1, "content", 0, "text")),
    ],
)
def test_the_path_of_a_field_is_read_in_both_notations(
    text: str, path: tuple[str | int, ...]
) -> None:
    assert field_path(text) == path


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


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (NoModel(), ErrorKind.NO_MODEL),
        (QueueFull(3), ErrorKind.RATE_LIMITED),
        (MemoryShort("2.0 GB", "1.0 GB"), ErrorKind.OVERLOADED),
        (EngineClosed(), ErrorKind.UNAVAILABLE),
        (ModelLoadFailed("no such folder"), ErrorKind.INTERNAL),
        (UnknownModel("gpt-4o", ["gpt-oss-20b"]), ErrorKind.NOT_FOUND),
    ],
)
def test_each_refusal_of_the_engine_has_its_kind_of_error(refusal: Any, kind: ErrorKind) -> None:
    error = from_engine(refusal, {})

    assert error.kind is kind
    assert error.message


def test_only_a_broken_generation_is_a_failure(scenario: Any) -> None:
    failure = failure_of(scenario.finished)

    assert (failure is not None) == (scenario.name in ("error_after_text", "cancelled"))


def test_an_answer_that_only_the_moment_ended_can_be_sent_again() -> None:
    stop = StopInfo(StopKind.ERROR)
    failure = failure_of(Finished(stop, Usage(), Timing(), "no memory now", retry_after_s=10.0))

    assert failure is not None
    assert (failure.kind, failure.retry_after_s) == (ErrorKind.OVERLOADED, 10.0)
    assert failure.message == "no memory now"


def test_a_request_that_was_cancelled_for_another_model_can_be_sent_again() -> None:
    error = from_engine(RequestCancelled("cancelled before it was taken"), {})
    assert error.kind is ErrorKind.UNAVAILABLE
    assert "cancelled" in error.message
