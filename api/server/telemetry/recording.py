"""Makes spans and measurements from requests that have ended. Imports OpenTelemetry.

The server's loop only puts a request into a queue; a separate thread does the rest. Failures there,
in the SDK or at the collector, are logged and never reach an answer.
"""

import logging
import threading
import time
from collections.abc import Callable
from queue import Full, Queue

from opentelemetry.metrics import Meter
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from api.server.telemetry.attributes import (
    error_type,
    has_failed,
    metric_attributes,
    span_attributes,
    span_name,
    usage_of,
    without_secret,
)
from api.transport.observing import Content, RequestBegan, RequestEnded
from engine import TraceLevel

_log = logging.getLogger(__name__)

_MOST_WAITING = 1000
_CLOSE_TIMEOUT_S = 3.0

# The bucket boundaries that the conventions prescribe for each histogram.
_TOKENS = [4.0**power for power in range(14)]
_DURATION_S = [0.01 * 2**power for power in range(14)]
_FIRST_TOKEN_S = [
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
]
_OUTPUT_TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]


class Instruments:
    """The histograms of the GenAI semantic conventions."""

    def __init__(self, meter: Meter) -> None:
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.duration = meter.create_histogram(
            "gen_ai.server.request.duration",
            "s",
            "Time from a request to the last byte of its answer.",
            explicit_bucket_boundaries_advisory=_DURATION_S,
        )
        self.first_token = meter.create_histogram(
            "gen_ai.server.time_to_first_token",
            "s",
            "Time to the first token of a successful answer.",
            explicit_bucket_boundaries_advisory=_FIRST_TOKEN_S,
        )
        self.output_token = meter.create_histogram(
            "gen_ai.server.time_per_output_token",
            "s",
            "Time for each token after the first of a successful answer.",
            explicit_bucket_boundaries_advisory=_OUTPUT_TOKEN_S,
        )

    def measure(self, ended: RequestEnded) -> None:
        """Record the measurements of one request."""
        told = metric_attributes(ended)
        error = error_type(ended)
        self.duration.record(ended.took_s, told if error is None else {**told, "error.type": error})
        if ended.embedded_tokens is not None:
            self.tokens.record(ended.embedded_tokens, {**told, "gen_ai.token.type": "input"})
        if not ended.ends:
            return
        prompt_tokens, _, output_tokens, _ = usage_of(ended)
        self.tokens.record(prompt_tokens, {**told, "gen_ai.token.type": "input"})
        self.tokens.record(output_tokens, {**told, "gen_ai.token.type": "output"})
        if error is not None:
            return
        for end in ended.ends:
            if end.timing.first_token_s is not None:
                self.first_token.record(end.timing.first_token_s, told)
            if end.usage.output_tokens > 1:
                each_s = end.timing.decode_s / (end.usage.output_tokens - 1)
                self.output_token.record(each_s, told)


class Telemetry:
    """Reports each request for an answer to a collector.

    Fits ``api.transport.observing.RequestObserver``.

    Args:
        tracer: Makes the spans; None for no spans.
        meter: Makes the instruments; None for no metrics.
        with_content: Whether spans contain prompts and answers.
        secret: A text that no span may contain: the server's key.
        shutdowns: Functions that send the remaining data; each may take long.
    """

    def __init__(
        self,
        tracer: Tracer | None,
        meter: Meter | None,
        *,
        with_content: bool,
        secret: str | None,
        shutdowns: tuple[Callable[[], object], ...] = (),
    ) -> None:
        self._tracer = tracer
        self._instruments = None if meter is None else Instruments(meter)
        self._with_content = with_content
        self._secret = secret
        self._shutdowns = shutdowns
        self._queue: Queue[RequestEnded | None] = Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._record_all, name="telemetry", daemon=True)
        self._thread.start()

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return that no token traces are wanted."""
        return TraceLevel.OFF, 0

    def wanted_content(self) -> Content:
        """Return whether prompts and answers are wanted."""
        return Content.TEXTS if self._with_content else Content.NONE

    def request_began(self, began: RequestBegan) -> None:
        """Do nothing: the span is made when the request has ended."""

    def request_ended(self, ended: RequestEnded) -> None:
        """Queue a request for an answer."""
        if not ended.began.operation:
            return
        try:
            self._queue.put_nowait(ended)
        except Full:
            _log.warning("a request is missing from telemetry: too many are waiting")

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Send the remaining data and end. Blocks no longer than the given time."""
        ends_at = time.monotonic() + timeout_s
        ending = [
            threading.Thread(target=self._shut_down, args=(one,), name="telemetry", daemon=True)
            for one in self._shutdowns
        ]
        try:
            self._queue.put(None, timeout=timeout_s)
        except Full:
            _log.warning("the last requests are missing from telemetry: too many are waiting")
        self._thread.join(max(0.0, ends_at - time.monotonic()))
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join(max(0.0, ends_at - time.monotonic()))
        if any(thread.is_alive() for thread in ending):
            _log.warning(
                "the last telemetry may be lost: the collector did not accept it in %.0f s",
                timeout_s,
            )

    def _shut_down(self, shutdown: Callable[[], object]) -> None:
        try:
            shutdown()
        except Exception as error:
            _log.warning("telemetry failed while it was closing (%s)", type(error).__name__)

    def _record_all(self) -> None:
        while (ended := self._queue.get()) is not None:
            try:
                if self._tracer is not None:
                    self._make_span(ended, self._tracer)
                if self._instruments is not None:
                    self._instruments.measure(ended)
            except Exception as error:
                # The error's text is not logged: it may quote the prompt.
                _log.warning("a request is missing from telemetry (%s)", type(error).__name__)

    def _make_span(self, ended: RequestEnded, tracer: Tracer) -> None:
        began = ended.began
        attributes = span_attributes(ended, with_content=self._with_content)
        name = {"name": span_name(ended)}
        began_ns = int(began.began_at * 1e9)
        span = tracer.start_span(
            str(without_secret(name, self._secret)["name"]),
            context=extract({name.lower(): value for name, value in began.headers}),
            kind=SpanKind.SERVER,
            attributes=without_secret(attributes, self._secret),
            start_time=began_ns,
        )
        if has_failed(ended):
            span.set_status(Status(StatusCode.ERROR))
        span.end(began_ns + int(ended.took_s * 1e9))
