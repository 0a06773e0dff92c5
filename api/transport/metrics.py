"""Counts what a server has done, and writes it in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/. Knows no vendor and no web framework.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import PERSON, Finished, ModelStatus, tokens_per_s

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS_PER_S = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_REQUEST_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)


class Histogram:
    """Counts values into buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.sum = 0.0
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Yield each bound with the number of values up to it; the last bound is infinite."""
        return zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True)


class Metrics:
    """The metrics of one server.

    Attributes:
        requests: Answered requests, by dialect, route and HTTP status.
        request_s: Seconds from a request's headers to the end of its answer, by dialect.
        open_requests: Requests that are being answered.
        stops: Answers that ended, by the kind of the stop.
        tokens: Tokens, by kind.
        cache_hits: Answers for which a part of the prompt came from a cache.
        guesses: Counters of speculative decoding: passes, guessed, accepted and forced tokens.
        first_token_s: Seconds from submission to the first sampled token.
        queued_s: Seconds that a request waited in the queue.
        speed: Tokens per second of one answer.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.request_s: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_REQUEST_S))
        self.open_requests = 0
        self.stops: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.cache_hits = 0
        self.guesses: Counter[str] = Counter()
        self.first_token_s = Histogram(_FIRST_TOKEN_S)
        self.queued_s = Histogram(_FIRST_TOKEN_S)
        self.speed = Histogram(_TOKENS_PER_S)

    def request_began(self) -> None:
        """Count a request that arrived."""
        self.open_requests += 1

    def request_ended(self, dialect: str, route: str, status: int, took_s: float) -> None:
        """Count a request that has been answered.

        Args:
            dialect: The dialect's name.
            route: Method and path.
            status: The HTTP status; 499 if the client disconnected.
            took_s: Seconds from its headers to the end of its answer.
        """
        self.open_requests -= 1
        self.requests[dialect, route, str(status)] += 1
        self.request_s[dialect].observe(took_s)

    def answer_ended(self, finished: Finished) -> None:
        """Count an answer that has ended, whatever the reason."""
        usage, timing = finished.usage, finished.timing
        self.stops[finished.stop.kind.value] += 1
        self.tokens["prompt"] += usage.prompt_tokens
        self.tokens["cached"] += usage.cached_tokens
        self.cache_hits += bool(usage.cached_tokens)
        self.tokens["disk"] += usage.disk_tokens
        self.tokens["output"] += usage.output_tokens
        self.tokens["thinking"] += usage.thinking_tokens
        guesses = finished.speculation
        self.guesses["passes"] += guesses.passes
        self.guesses["guessed"] += guesses.guessed
        self.guesses["accepted"] += guesses.accepted
        self.guesses["forced"] += guesses.forced
        self.queued_s.observe(timing.queued_s)
        if timing.first_token_s is not None:
            self.first_token_s.observe(timing.first_token_s)
        speed = tokens_per_s(usage, timing)
        if speed is not None:
            self.speed.observe(speed)


_COUNTER, _GAUGE, _HISTOGRAM = "Counter", "Gauge", "Histogram"

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


class _Family(NamedTuple):
    """One metric: its kind, name and meaning, and its values by those of its labels."""

    kind: str
    name: str
    about: str
    values: Mapping[Any, Any]
    labels: tuple[str, ...] = ()


def exposition(metrics: Metrics, status: ModelStatus) -> tuple[bytes, str]:
    """Return all metrics of a server and of its engine, and the media type of the text.

    The Prometheus library is imported only here, because many servers never need it.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector

    class Numbers(Collector):
        def collect(self) -> "Iterator[Metric]":
            return map(_written, (*_of_engine(status), *_of_server(metrics)))

    registry = CollectorRegistry()
    registry.register(Numbers())
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _written(family: _Family) -> "Metric":
    from prometheus_client import metrics_core

    if family.kind == _HISTOGRAM:
        histograms = metrics_core.HistogramMetricFamily(
            family.name, family.about, labels=family.labels
        )
        for labels, histogram in family.values.items():
            buckets = [(_bound(bound), count) for bound, count in histogram.buckets()]
            histograms.add_metric(labels, buckets, histogram.sum)
        return histograms
    is_counter = family.kind == _COUNTER
    kind = metrics_core.CounterMetricFamily if is_counter else metrics_core.GaugeMetricFamily
    numbers = kind(family.name, family.about, labels=family.labels)
    for labels, value in family.values.items():
        numbers.add_metric(labels, value)
    return numbers


def _of_engine(status: ModelStatus) -> Iterator[_Family]:
    # The person's own chats are not the clients' to measure.
    shares = [share for name, share in status.cache_use.shares.items() if name != PERSON.name]
    for name, about, value in (
        ("running", "Answers that are being generated.", status.running),
        ("waiting", "Requests that are waiting in the queue.", status.waiting),
        ("ready", "1 if a model is loaded, else 0.", int(status.is_loaded or status.is_unloaded)),
        (
            "prompt_cache_entries",
            "Earlier prompts of clients in the prompt cache.",
            sum(share.entries for share in shares),
        ),
        (
            "prompt_cache_bytes",
            "Memory that these prompts take.",
            sum(share.size_bytes for share in shares),
        ),
        (
            "prompt_cache_snapshot_bytes",
            "The part of it for snapshots of layers that cannot be cut back to an earlier token.",
            sum(share.snapshot_bytes for share in shares),
        ),
    ):
        yield _Family(_GAUGE, f"fullstop_{name}", about, {(): value})


def _of_server(metrics: Metrics) -> Iterator[_Family]:
    yield _Family(
        _COUNTER,
        "fullstop_requests",
        "Requests answered, by dialect, route and HTTP status (499: the client disconnected).",
        metrics.requests,
        ("dialect", "route", "status"),
    )
    yield _Family(
        _HISTOGRAM,
        "fullstop_request_seconds",
        "Time from a request's headers to the end of its answer.",
        {(dialect,): histogram for dialect, histogram in metrics.request_s.items()},
        ("dialect",),
    )
    yield _Family(
        _GAUGE,
        "fullstop_open_requests",
        "Requests that are being answered.",
        {(): metrics.open_requests},
    )
    yield _Family(
        _COUNTER,
        "fullstop_stops",
        "Answers that ended, by stop reason.",
        {(kind,): count for kind, count in metrics.stops.items()},
        ("kind",),
    )
    yield _Family(
        _COUNTER,
        "fullstop_tokens",
        "Tokens: prompt (all), cached (those of them that needed no work), disk (those of the "
        "cached ones that came from disk), output (all sampled), thinking (those of them that were "
        "reasoning).",
        {(kind,): count for kind, count in metrics.tokens.items()},
        ("kind",),
    )
    yield _Family(
        _COUNTER,
        "fullstop_prompt_cache_hits",
        "Requests that found a part of their prompt in the cache.",
        {(): metrics.cache_hits},
    )
    yield _Family(
        _COUNTER,
        "fullstop_prompt_cache_hit_tokens",
        "Prompt tokens that were found in the cache.",
        {(): metrics.tokens["cached"]},
    )
    for name, kind, about in _GUESSES:
        yield _Family(_COUNTER, name, about, {(): metrics.guesses[kind]})
    for name, about, histogram in (
        (
            "first_token_seconds",
            "Time from submission to the first sampled token.",
            metrics.first_token_s,
        ),
        ("queue_seconds", "Time that a request waited in the queue.", metrics.queued_s),
        ("tokens_per_second", "Decoding speed of one answer.", metrics.speed),
    ):
        yield _Family(_HISTOGRAM, f"fullstop_{name}", about, {(): histogram})


def _bound(value: float) -> str:
    return "+Inf" if math.isinf(value) else str(float(value))
