"""What a server has done and is doing, as numbers for Prometheus.

A registry of its own for each server. Knows no vendor and no web framework. Server's loop.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine import EngineStatus, Finished, tokens_per_s

CONTENT_TYPE = CONTENT_TYPE_LATEST

_FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS_PER_S = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_REQUEST_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """The numbers of one server.

    Args:
        status: Says what the engine is doing now.
    """

    def __init__(self, status: Callable[[], EngineStatus]) -> None:
        registry = CollectorRegistry(auto_describe=True)
        registry.register(_EngineNumbers(status))
        self._registry = registry
        self._requests = Counter(
            "fullstop_requests",
            "Requests answered, by dialect, route and HTTP status (499: the client hung up).",
            ["dialect", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "fullstop_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ["dialect"],
            buckets=_REQUEST_S,
            registry=registry,
        )
        self._open_requests = Gauge(
            "fullstop_open_requests", "Requests that are being answered.", registry=registry
        )
        self._stops = Counter(
            "fullstop_stops", "Answers that ended, by the reason.", ["kind"], registry=registry
        )
        self._tokens = Counter(
            "fullstop_tokens",
            "Tokens: prompt (all), cached (those of them that needed no work), output (all "
            "sampled), thinking (those of them that were reasoning).",
            ["kind"],
            registry=registry,
        )
        self._first_token_s = Histogram(
            "fullstop_first_token_seconds",
            "Time from submission to the first sampled token.",
            buckets=_FIRST_TOKEN_S,
            registry=registry,
        )
        self._queued_s = Histogram(
            "fullstop_queue_seconds",
            "Time that a request waited for its turn.",
            buckets=_FIRST_TOKEN_S,
            registry=registry,
        )
        self._speed = Histogram(
            "fullstop_tokens_per_second",
            "Decoding speed of one answer.",
            buckets=_TOKENS_PER_S,
            registry=registry,
        )

    def request_began(self) -> None:
        """Count a request that has come."""
        self._open_requests.inc()

    def request_ended(self, dialect: str, route: str, status: int, took_s: float) -> None:
        """Count a request that has been answered."""
        self._open_requests.dec()
        self._requests.labels(dialect, route, str(status)).inc()
        self._seconds.labels(dialect).observe(took_s)

    def answer_ended(self, finished: Finished) -> None:
        """Count an answer that has ended, whatever the reason."""
        usage, timing = finished.usage, finished.timing
        self._stops.labels(finished.stop.kind.value).inc()
        for kind, count in (
            ("prompt", usage.prompt_tokens),
            ("cached", usage.cached_tokens),
            ("output", usage.output_tokens),
            ("thinking", usage.thinking_tokens),
        ):
            self._tokens.labels(kind).inc(count)
        self._queued_s.observe(timing.queued_s)
        if timing.first_token_s is not None:
            self._first_token_s.observe(timing.first_token_s)
        speed = tokens_per_s(usage, timing)
        if speed is not None:
            self._speed.observe(speed)

    def text(self) -> bytes:
        """Return all numbers in Prometheus' text format."""
        return generate_latest(self._registry)


class _EngineNumbers(Collector):
    """What is read from the engine when somebody looks."""

    def __init__(self, status: Callable[[], EngineStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the present numbers."""
        status = self._status()
        yield GaugeMetricFamily(
            "fullstop_running", "Answers that are being generated.", status.running
        )
        yield GaugeMetricFamily(
            "fullstop_waiting", "Requests that wait for their turn.", status.waiting
        )
        yield GaugeMetricFamily(
            "fullstop_ready", "1 if a model is loaded, else 0.", int(status.state == "ready")
        )
        use = status.cache_use
        yield GaugeMetricFamily(
            "fullstop_prompt_cache_entries", "Earlier prompts that are kept.", use.entries
        )
        yield GaugeMetricFamily(
            "fullstop_prompt_cache_bytes", "Memory that kept prompts take.", use.size_bytes
        )
        yield CounterMetricFamily(
            "fullstop_prompt_cache_hits",
            "Requests that found a part of their prompt, since the model was loaded.",
            use.hits,
        )
        yield CounterMetricFamily(
            "fullstop_prompt_cache_hit_tokens",
            "Tokens of prompts that were found and not read, since the model was loaded.",
            use.hit_tokens,
        )
