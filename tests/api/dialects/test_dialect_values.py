"""Every dialect is complete: its value has all that the server, its logs and its documents need."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from api.dialects.shared.dialect import AnswerRoute, Dialect, Head
from api.server import openapi
from api.server.routes import DIALECTS, ROUTES
from api.transport.answer_text import json_text
from api.transport.errors import ApiError, ErrorKind
from engine import (
    Event,
    Finished,
    GenerationRequest,
    Message,
    PromptProgress,
    StopInfo,
    StopKind,
    TextDelta,
    Timing,
    Usage,
)

HEAD = Head("1", 1, "m", "req_1")
ASKED = GenerationRequest(messages=(Message("user", "Hi"),), max_tokens=5)
VALUES: dict[StopKind, str | int] = {StopKind.STOP_STRING: "END", StopKind.STOP_TOKEN: 21}
NORMAL = [kind for kind in StopKind if kind not in (StopKind.ERROR, StopKind.CANCELLED)]

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def params_of(dialect: Dialect) -> tuple[AnswerRoute[Any], Any]:
    """Return the parameters of a dialect: its first route, and a request for it."""
    route = dialect.answers[0]
    return route, route.request.model_validate(dialect.request_body(ASKED, "m", "Hi"))


def ended(kind: StopKind) -> Finished:
    return Finished(
        StopInfo(kind, VALUES.get(kind)), Usage(3, 0, 2, 0), Timing(), error="the device was lost"
    )


def sent(dialect: Dialect, kind: StopKind) -> Iterator[str]:
    route, params = params_of(dialect)
    encoder = route.encoder(params, HEAD)
    batches: list[list[Event]] = [[PromptProgress(3, 3, 0)], [TextDelta("Ho")], [ended(kind)]]
    for batch in batches:
        yield from (frame.frame() for frame in encoder.encode(batch))


@each_dialect
@pytest.mark.parametrize("kind", NORMAL)
def test_every_normal_end_can_be_written_whole_and_streamed(
    dialect: Dialect, kind: StopKind
) -> None:
    route, params = params_of(dialect)
    whole = route.write_whole([([TextDelta("Ho")], ended(kind))], params, HEAD)

    assert "Ho" in json_text(whole)
    assert any("Ho" in frame for frame in sent(dialect, kind))


@each_dialect
@pytest.mark.parametrize("kind", [StopKind.ERROR, StopKind.CANCELLED])
def test_a_failure_is_reported_in_the_stream_and_closes_it(
    dialect: Dialect, kind: StopKind
) -> None:
    route, params = params_of(dialect)
    encoder = route.encoder(params, HEAD)
    frames = encoder.encode([TextDelta("Ho"), ended(kind)])

    assert encoder.failure is not None
    assert any(encoder.failure.message in frame.frame() for frame in frames)


@each_dialect
@pytest.mark.parametrize("kind", ErrorKind)
def test_every_error_has_a_status_and_a_message(dialect: Dialect, kind: ErrorKind) -> None:
    status, body = dialect.render_error(ApiError(kind, "is wrong", field=("a", 0)), "req_1")

    assert 400 <= status < 600
    assert "is wrong" in json_text(body)


def is_there(schema: dict[str, Any], parts: Sequence[str], schemas: dict[str, Any]) -> bool:
    """Whether a path leads to a field of a schema; an object without named fields has all."""
    if "$ref" in schema:
        return is_there(schemas[schema["$ref"].rpartition("/")[2]], parts, schemas)
    if "anyOf" in schema:
        return any(is_there(one, parts, schemas) for one in schema["anyOf"])
    if not parts:
        return True
    if "properties" not in schema:
        return schema.get("type") == "object"
    found = schema["properties"].get(parts[0])
    return found is not None and is_there(found, parts[1:], schemas)


@each_dialect
def test_an_error_names_a_field_as_the_request_spells_it(dialect: Dialect) -> None:
    document = openapi.document(ROUTES)
    schemas = document["components"]["schemas"]
    bodies = [
        document["paths"][route.path]["post"]["requestBody"]["content"]["application/json"]
        for route in dialect.answers
    ]
    for ours, theirs in dialect.field_names.items():
        assert any(is_there(body["schema"], theirs.split("."), schemas) for body in bodies), (
            f"{ours} is called {theirs}, which no request of {dialect.name} has"
        )


def test_the_types_of_requests_load_without_a_web_framework() -> None:
    modules = {route.request.__module__ for dialect in DIALECTS for route in dialect.answers}
    code = (
        f"import sys, {', '.join(sorted(modules))}\n"
        "heavy = {'aiohttp', 'mlx', 'PySide6'} & sys.modules.keys()\n"
        "sys.exit(f'loads {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
