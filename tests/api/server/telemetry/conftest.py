import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api.server.server import ServerThread
from api.server.telemetry import telemetry_for
from api.service.config import ServerConfig
from engine.engine import Engine
from tests.api.conftest import Site
from tests.support.outside.collector import Collector, collecting

Told = Callable[..., Any]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.fixture
def told(collector: Collector, engine: Engine) -> Told:
    """Serves an engine; once the block is left, the collector has received everything."""

    @contextmanager
    def serve(other: Engine | None = None, **settings: Any) -> Iterator[Site]:
        config = ServerConfig(**settings)
        telemetry = telemetry_for(os.environ, "1.2.3", config.api_key)
        assert telemetry is not None
        thread = ServerThread(other or engine, config, [telemetry])
        address = thread.start()
        try:
            yield Site(address, other or engine, thread)
        finally:
            thread.stop()
            # A slow machine gets more time than the product's limit.
            telemetry.close(60)

    return serve
