"""Counts what a server has done, and writes it in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/. Knows no vendor and no web framework.
Beside our own names there are those of vLLM, which dashboards know:
https://docs.vllm.ai/en/latest/design/metrics.html. Runs on the server's loop.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    exposition,
)

from engine import LOCAL_OWNER, Finished, ModelStatus, StopKind, Usage, tokens_per_s

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS_PER_S = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_REQUEST_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_TOKENS = (1, 10, 100, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
_MODEL = ("model",)
# vLLM tells its engine processes apart, and here there is one.
_VLLM_MODEL = ("model_name", "engine")
_VLLM_ENGINE = "0"
_FINISHED_REASONS = {
    StopKind.MAX_TOKENS: "length",
    StopKind.CONTEXT_FULL: "length",
    StopKind.MEMORY_FULL: "length",
    StopKind.CANCELLED: "abort",
    StopKind.ERROR: "error",
}
CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST

# The time at which each counter was made would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.answered_requests = 0
        self.output_tokens = 0
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self._requests = counter(
            "fullstop_requests",
            "Requests answered, by dialect, route and HTTP status (499: the client disconnected).",
            ("dialect", "route", "status"),
        )
        self._request_s = histogram(
            "fullstop_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ("dialect",),
            buckets=_REQUEST_S,
        )
        self._open_requests = gauge("fullstop_open_requests", "Requests that are being answered.")
        self._stops = counter(
            "fullstop_stops", "Answers that ended, by stop reason.", ("kind", *_MODEL)
        )
        self._tokens = counter(
            "fullstop_tokens",
            "Tokens: prompt (all, each prompt once), cached (those of them that needed no work), "
            "disk (those of the cached ones that came from disk), output (all sampled), thinking "
            "(those of them that were reasoning).",
            ("kind", *_MODEL),
        )
        self._cache_hits = counter(
            "fullstop_prompt_cache_hits",
            "Requests that found a part of their prompt in the cache.",
            _MODEL,
        )
        self._hit_tokens = counter(
            "fullstop_prompt_cache_hit_tokens",
            "Prompt tokens that were found in the cache.",
            _MODEL,
        )
        self._passes = counter(
            "fullstop_spec_decode_num_drafts",
            "Forward passes that verified draft tokens.",
            _MODEL,
        )
        self._drafted = counter(
            "fullstop_spec_decode_num_draft_tokens",
            "Draft tokens that the model verified, without forced ones.",
            _MODEL,
        )
        self._accepted = counter(
            "fullstop_spec_decode_num_accepted_tokens",
            "Draft tokens that the model accepted.",
            _MODEL,
        )
        self._forced = counter(
            "fullstop_spec_decode_num_forced_tokens",
            "Tokens that were the only ones allowed by a schema or a forced call.",
            _MODEL,
        )
        self._first_token_s = histogram(
            "fullstop_first_token_seconds",
            "Time from submission to the first sampled token.",
            _MODEL,
            buckets=_SECONDS,
        )
        self._queue_s = histogram(
            "fullstop_queue_seconds",
            "Time that a request waited in the queue.",
            _MODEL,
            buckets=_SECONDS,
        )
        self._speed = histogram(
            "fullstop_tokens_per_second",
            "Decoding speed of one answer.",
            _MODEL,
            buckets=_TOKENS_PER_S,
        )
        self._vllm = _VllmMetrics(self._registry)
        self._of_models = _ModelGauges(self._registry)

    def request_began(self) -> None:
        """Count a request that arrived."""
        self._open_requests.inc()

    def request_ended(self, dialect: str, route: str, status: int, took_s: float) -> None:
        """Count a request that has been answered."""
        self._open_requests.dec()
        self._requests.labels(dialect, route, str(status)).inc()
        self._request_s.labels(dialect).observe(took_s)
        self.answered_requests += 1

    def answer_ended(self, finished: Finished, model: str, *, counts_prompt: bool = True) -> None:
        """Count an answer that has ended, whatever the reason."""
        usage, timing, drafts = finished.usage, finished.timing, finished.speculation
        self.output_tokens += usage.output_tokens
        self._stops.labels(finished.stop.kind.value, model).inc()
        for kind, count in _token_counts(usage, counts_prompt=counts_prompt):
            self._tokens.labels(kind, model).inc(count)
        if counts_prompt:
            self._cache_hits.labels(model).inc(bool(usage.cached_tokens))
            self._hit_tokens.labels(model).inc(usage.cached_tokens)
        self._passes.labels(model).inc(drafts.passes)
        self._drafted.labels(model).inc(drafts.guessed)
        self._accepted.labels(model).inc(drafts.accepted)
        self._forced.labels(model).inc(drafts.forced)
        self._queue_s.labels(model).observe(timing.queued_s)
        if timing.first_token_s is not None:
            self._first_token_s.labels(model).observe(timing.first_token_s)
        speed = tokens_per_s(usage, timing)
        if speed is not None:
            self._speed.labels(model).observe(speed)
        self._vllm.answer_ended(finished, model, counts_prompt=counts_prompt)

    def exposition(self, statuses: Sequence[ModelStatus], cache_limit_bytes: int) -> bytes:
        """Return all metrics, of the type ``CONTENT_TYPE``."""
        self._of_models.update(statuses)
        self._vllm.update(statuses, cache_limit_bytes)
        return exposition.generate_latest(self._registry)


class _ModelGauges:
    """What each model is doing at the moment."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, labelnames=_MODEL, registry=registry)
        self._running = gauge("fullstop_running", "Answers that are being generated.")
        self._waiting = gauge("fullstop_waiting", "Requests that are waiting in the queue.")
        self._ready = gauge("fullstop_ready", "1 if the model answers requests, else 0.")
        self._memory = gauge(
            "fullstop_model_memory_bytes", "Memory that the weights and caches of the model take."
        )
        self._entries = gauge(
            "fullstop_prompt_cache_entries", "Earlier prompts of clients in the prompt cache."
        )
        self._bytes = gauge("fullstop_prompt_cache_bytes", "Memory that these prompts take.")
        self._snapshot_bytes = gauge(
            "fullstop_prompt_cache_snapshot_bytes",
            "The part of it for snapshots of layers that cannot be cut back to an earlier token.",
        )

    def update(self, statuses: Sequence[ModelStatus]) -> None:
        for gauge in (
            self._running,
            self._waiting,
            self._ready,
            self._memory,
            self._entries,
            self._bytes,
            self._snapshot_bytes,
        ):
            gauge.clear()
        for status in statuses:
            # The user's own chats are not the clients' to measure.
            shares = [
                share for name, share in status.cache_use.shares.items() if name != LOCAL_OWNER.name
            ]
            self._running.labels(status.id).set(status.running)
            self._waiting.labels(status.id).set(status.waiting)
            self._ready.labels(status.id).set(status.is_loaded or status.is_unloaded)
            self._memory.labels(status.id).set(status.memory_bytes)
            self._entries.labels(status.id).set(sum(share.entries for share in shares))
            self._bytes.labels(status.id).set(sum(share.size_bytes for share in shares))
            self._snapshot_bytes.labels(status.id).set(
                sum(share.snapshot_bytes for share in shares)
            )


class _VllmMetrics:
    """The same under vLLM's names, as far as there is the same."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, labelnames=_VLLM_MODEL, registry=registry)
        histogram = partial(Histogram, labelnames=_VLLM_MODEL, registry=registry)
        self._running = gauge("vllm:num_requests_running", "Answers that are being generated.")
        self._waiting = gauge("vllm:num_requests_waiting", "Requests that wait in the queue.")
        about = "Prompt cache in use, as a share of its limit, from 0 to 1."
        self._cache_use = gauge("vllm:kv_cache_usage_perc", about)
        self._gpu_cache_use = gauge("vllm:gpu_cache_usage_perc", about)
        self._success = counter(
            "vllm:request_success", "Answers that ended.", (*_VLLM_MODEL, "finished_reason")
        )
        self._prompt = counter("vllm:prompt_tokens", "Tokens of prompts.", _VLLM_MODEL)
        self._generated = counter("vllm:generation_tokens", "Sampled tokens.", _VLLM_MODEL)
        self._queries = counter(
            "vllm:prefix_cache_queries", "Prompt tokens looked up in the cache.", _VLLM_MODEL
        )
        self._hits = counter(
            "vllm:prefix_cache_hits", "Prompt tokens found in the cache.", _VLLM_MODEL
        )
        self._histograms = {
            name: histogram(f"vllm:{name}", about, buckets=buckets)
            for name, about, buckets in (
                (
                    "time_to_first_token_seconds",
                    "Time from submission to the first sampled token.",
                    _SECONDS,
                ),
                (
                    "request_time_per_output_token_seconds",
                    "Average time between the tokens of one answer.",
                    _TOKEN_S,
                ),
                (
                    "e2e_request_latency_seconds",
                    "Time from submission to the end of the answer.",
                    _REQUEST_S,
                ),
                ("request_queue_time_seconds", "Time in the queue.", _SECONDS),
                ("request_prefill_time_seconds", "Time for reading the prompt.", _SECONDS),
                (
                    "request_decode_time_seconds",
                    "Time from the first sampled token to the last.",
                    _REQUEST_S,
                ),
                ("request_prompt_tokens", "Tokens of the prompt.", _TOKENS),
                ("request_generation_tokens", "Sampled tokens of one answer.", _TOKENS),
            )
        }

    def answer_ended(self, finished: Finished, model: str, *, counts_prompt: bool) -> None:
        usage, timing = finished.usage, finished.timing
        labels = (model, _VLLM_ENGINE)
        reason = _FINISHED_REASONS.get(finished.stop.kind, "stop")
        self._success.labels(*labels, reason).inc()
        self._generated.labels(*labels).inc(usage.output_tokens)
        if counts_prompt:
            self._prompt.labels(*labels).inc(usage.prompt_tokens)
            self._queries.labels(*labels).inc(usage.prompt_tokens)
            self._hits.labels(*labels).inc(usage.cached_tokens)
        speed = tokens_per_s(usage, timing)
        values = {
            "time_to_first_token_seconds": timing.first_token_s,
            "request_time_per_output_token_seconds": None if speed is None else 1 / speed,
            "e2e_request_latency_seconds": timing.total_s,
            "request_queue_time_seconds": timing.queued_s,
            "request_prefill_time_seconds": timing.prefill_s,
            "request_decode_time_seconds": timing.decode_s,
            "request_prompt_tokens": usage.prompt_tokens,
            "request_generation_tokens": usage.output_tokens,
        }
        for name, value in values.items():
            if value is not None:
                self._histograms[name].labels(*labels).observe(value)

    def update(self, statuses: Sequence[ModelStatus], cache_limit_bytes: int) -> None:
        gauges: tuple[Any, ...] = (
            self._running,
            self._waiting,
            self._cache_use,
            self._gpu_cache_use,
        )
        for gauge in gauges:
            gauge.clear()
        for status in statuses:
            use = min(1.0, status.cache_use.size_bytes / max(1, cache_limit_bytes))
            for gauge, value in zip(
                gauges, (status.running, status.waiting, use, use), strict=True
            ):
                gauge.labels(status.id, _VLLM_ENGINE).set(value)


def _token_counts(usage: Usage, *, counts_prompt: bool) -> list[tuple[str, int]]:
    counts = [("output", usage.output_tokens), ("thinking", usage.thinking_tokens)]
    if counts_prompt:
        counts += [
            ("prompt", usage.prompt_tokens),
            ("cached", usage.cached_tokens),
            ("disk", usage.disk_tokens),
        ]
    return counts
