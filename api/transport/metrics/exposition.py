"""Writes a server's metrics in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/. Knows no web framework. Any thread.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from api.transport.metrics.counting import Histogram, Metrics
from engine import PERSON, EngineStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST

# The names are those of vLLM: https://docs.vllm.ai/en/latest/design/metrics.html
_GUESSES = (
    ("fullstop_spec_decode_num_drafts", "passes", "Forward passes that checked guessed tokens."),
    (
        "fullstop_spec_decode_num_draft_tokens",
        "guessed",
        "Guessed tokens that the model checked, without forced ones.",
    ),
    (
        "fullstop_spec_decode_num_accepted_tokens",
        "accepted",
        "Guessed tokens that the model confirmed.",
    ),
    (
        "fullstop_spec_decode_num_forced_tokens",
        "forced",
        "Tokens that were the only ones allowed by a schema or a forced call.",
    ),
)


def text(metrics: Metrics, status: EngineStatus) -> bytes:
    """Return all metrics of a server and of its engine."""
    registry = CollectorRegistry()
    registry.register(_Numbers([*_of_engine(status), *_of_server(metrics)]))
    return generate_latest(registry)


class _Numbers(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        return iter(self._families)


def _of_engine(status: EngineStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily("fullstop_running", "Answers that are being generated.", status.running)
    yield GaugeMetricFamily(
        "fullstop_waiting", "Requests that are waiting in the queue.", status.waiting
    )
    yield GaugeMetricFamily(
        "fullstop_ready", "1 if a model is loaded, else 0.", int(status.state == "ready")
    )
    # The person's own chats are not the clients' to measure.
    shares = [one for name, one in status.cache_use.shares.items() if name != PERSON.name]
    yield GaugeMetricFamily(
        "fullstop_prompt_cache_entries",
        "Earlier prompts of clients in the prompt cache.",
        sum(entries for entries, _ in shares),
    )
    yield GaugeMetricFamily(
        "fullstop_prompt_cache_bytes",
        "Memory that these prompts take.",
        sum(size_bytes for _, size_bytes in shares),
    )


def _of_server(metrics: Metrics) -> Iterator[Metric]:
    yield _counter(
        "fullstop_requests",
        "Requests answered, by dialect, route and HTTP status (499: the client disconnected).",
        ("dialect", "route", "status"),
        metrics.requests,
    )
    yield _histogram(
        "fullstop_request_seconds",
        "Time from a request's headers to the end of its answer.",
        {(dialect,): one for dialect, one in metrics.request_s.items()},
        ("dialect",),
    )
    yield GaugeMetricFamily(
        "fullstop_open_requests", "Requests that are being answered.", metrics.open_requests
    )
    yield _counter(
        "fullstop_stops",
        "Answers that ended, by stop reason.",
        ("kind",),
        {(kind,): count for kind, count in metrics.stops.items()},
    )
    yield _counter(
        "fullstop_tokens",
        "Tokens: prompt (all), cached (those of them that needed no work), disk (those of the "
        "cached ones that came from disk), output (all sampled), thinking (those of them that were "
        "reasoning).",
        ("kind",),
        {(kind,): count for kind, count in metrics.tokens.items()},
    )
    yield CounterMetricFamily(
        "fullstop_prompt_cache_hits",
        "Requests that found a part of their prompt in the cache.",
        metrics.cache_hits,
    )
    yield CounterMetricFamily(
        "fullstop_prompt_cache_hit_tokens",
        "Prompt tokens that were found in the cache.",
        metrics.tokens["cached"],
    )
    for name, kind, about in _GUESSES:
        yield CounterMetricFamily(name, about, metrics.guesses[kind])
    yield _histogram(
        "fullstop_first_token_seconds",
        "Time from submission to the first sampled token.",
        {(): metrics.first_token_s},
    )
    yield _histogram(
        "fullstop_queue_seconds",
        "Time that a request waited in the queue.",
        {(): metrics.queued_s},
    )
    yield _histogram(
        "fullstop_tokens_per_second", "Decoding speed of one answer.", {(): metrics.speed}
    )


def _counter(name: str, about: str, labels: tuple[str, ...], counts: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _histogram(
    name: str,
    about: str,
    found: Mapping[tuple[str, ...], Histogram],
    labels: tuple[str, ...] = (),
) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    for values, one in found.items():
        buckets = [(_bound(bound), count) for bound, count in one.buckets()]
        family.add_metric(values, buckets, one.sum)
    return family


def _bound(value: float) -> str:
    return "+Inf" if math.isinf(value) else str(float(value))
