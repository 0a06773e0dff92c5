import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from api.server.server import ServerThread
from api.server.telemetry import OtelLogFilter, telemetry_for, traces_variable
from api.service.config import ServerConfig
from engine.engine import Engine
from tests.api.conftest import Site
from tests.support.outside.collector import Collector

CHAT = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
PLACE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
Told = Callable[..., Any]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SERVICE_NAME": "a-name"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {**PLACE, "OTEL_SDK_DISABLED": "TRUE"},
        {**PLACE, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_telemetry_is_off_without_a_collector(environment: dict[str, str]) -> None:
    assert traces_variable(environment) is None
    assert telemetry_for(environment, "1", None) is None


@pytest.mark.parametrize(
    "environment",
    [
        PLACE,
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"},
        {"OTEL_TRACES_EXPORTER": "otlp"},
        {**PLACE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
    ],
)
def test_standard_variables_turn_telemetry_on(environment: dict[str, str]) -> None:
    assert traces_variable(environment) in environment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_invalid_variable_is_reported_in_one_line(
    caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    assert telemetry_for({**PLACE, name: value}, "1", None) is None
    (line,) = caplog.messages
    assert line.startswith(f"telemetry is off: {name} is {value}; ")


def test_variables_without_the_extra_name_the_remedy(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "api.server.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    monkeypatch.delitem(
        sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", raising=False
    )
    assert telemetry_for(PLACE, "1", None) is None
    (line,) = caplog.messages
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in line
    assert "pip install 'fullstop-chat[telemetry]'" in line


def test_a_collector_that_hangs_delays_neither_answers_nor_the_end(
    engine: Engine,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
) -> None:
    collector.answers.clear()
    telemetry = telemetry_for(os.environ, "1", None)
    assert telemetry is not None
    server = ServerThread(engine, ServerConfig(), [telemetry])
    site = Site(server.start(), engine, server)
    assert site.send("POST", "/v1/messages", CHAT).status == 200
    server.stop()
    telemetry.close(0.2)
    # The server has given it up: the collector still hangs.
    assert not collector.answers.is_set()
    assert "the last telemetry may be lost" in caplog.text


def test_refusing_collector_is_reported_without_its_key(
    told: Told,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20very-secret")
    collector.status = 403
    with told() as site:
        assert site.send("POST", "/v1/messages", CHAT).status == 200
    assert "telemetry (answers are not affected): Failed to export spans" in caplog.text
    assert "very-secret" not in caplog.text
    assert "Traceback" not in caplog.text


def test_error_messages_hide_the_secrets_of_the_variables(caplog: pytest.LogCaptureFixture) -> None:
    handler = OtelLogFilter({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20very-secret"})
    for name, text in (
        ("opentelemetry.util.re", "Header format invalid: Bearer very-secret"),
        ("opentelemetry.exporter", "no route to http://me:password@host/v1 with very-secret"),
    ):
        handler.handle(logging.LogRecord(name, logging.ERROR, "", 1, text, None, None))
    first, second = caplog.messages
    assert first.endswith("Header format invalid: Bearer [hidden]")
    assert second.endswith("no route to http://host/v1 with [hidden]")
