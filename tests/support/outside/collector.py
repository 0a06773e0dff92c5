"""An OpenTelemetry collector on loopback: accepts OTLP over HTTP; decodes it by their package."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

# Sends at once; otherwise the data would wait for an interval or for the end.
AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "20"}


@dataclass
class Collector:
    """What was sent.

    Attributes:
        url: Its address.
        bodies: The received bodies, by path.
        headers: The headers that came with them.
        answers: Set while it answers; a collector that hangs has it cleared.
        status: Its answer's.
    """

    url: str
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    status: int = 200

    @property
    def spans(self) -> list[Any]:
        found = []
        for body in self._of("/v1/traces"):
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    found += list(scope.spans)
        return found

    @property
    def resource(self) -> dict[str, Any]:
        """What the first spans say of the process that sent them."""
        request = ExportTraceServiceRequest.FromString(next(self._of("/v1/traces")))
        return plain(request.resource_spans[0].resource.attributes)

    def wait_until(self, claim: Callable[[], object]) -> None:
        """Wait until something is true of what was sent."""
        ends_at = time.monotonic() + 60
        while not claim():
            assert time.monotonic() < ends_at, "it was not sent in time"
            time.sleep(0.01)

    def _of(self, path: str) -> Iterator[bytes]:
        return (body for where, body in self.bodies if where == path)


def plain(attributes: Any) -> dict[str, Any]:
    """Return the attributes of a span, a point or a resource as Python has them."""
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector("")
    collector.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.answers.wait(120)
            collector.headers.append(dict(self.headers.items()))
            collector.bodies.append((self.path, body))
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield collector
    finally:
        collector.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
