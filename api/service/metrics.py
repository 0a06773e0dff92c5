"""Counts what a server has done, and writes it in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/. Knows no vendor and no web framework.
Beside our own names there are those of vLLM, which dashboards know:
https://docs.vllm.ai/en/latest/design/metrics.html. Runs on the server's loop.
"""

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    exposition,
)

from engine import ModelStatus
from engine.stopping.record import StopKind
from engine.values.events import Finished, tokens_per_s
from engine.values.request import LOCAL_OWNER

CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST

_MODEL = ("model",)
# vLLM tells its engine processes apart, and here there is one.
_VLLM_MODEL = ("model_name", "engine")
_VLLM_ENGINE = "0"
_FINISHED_REASONS = {
    StopKind.REPETITION: "repetition",
    StopKind.MAX_TOKENS: "length",
    StopKind.CONTEXT_FULL: "length",
    StopKind.MEMORY_FULL: "length",
    StopKind.CANCELLED: "abort",
    StopKind.ERROR: "error",
}
# Counters of a model's answers.
_COUNTERS = {
    "fullstop_prompt_cache_hits": "Requests that found a part of their prompt in the cache.",
    "fullstop_prompt_cache_hit_tokens": "Prompt tokens that were found in the cache.",
    "fullstop_spec_decode_num_drafts": "Forward passes that verified draft tokens.",
    "fullstop_spec_decode_num_draft_tokens": (
        "Draft tokens that the model verified, without forced ones."
    ),
    "fullstop_spec_decode_num_accepted_tokens": "Draft tokens that the model accepted.",
    "fullstop_spec_decode_num_forced_tokens": (
        "Tokens that were the only ones allowed by a schema or a forced call."
    ),
    "vllm:prompt_tokens": "Tokens of prompts.",
    "vllm:generation_tokens": "Sampled tokens.",
    "vllm:prefix_cache_queries": "Prompt tokens looked up in the cache.",
    "vllm:prefix_cache_hits": "Prompt tokens found in the cache.",
}
# Of times in seconds, and of tokens and tokens a second.
_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 30, 60, 300, 1_800),
)
_TOKENS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000),
)
_HISTOGRAMS = {
    "fullstop_first_token_seconds": "Time from submission to the first sampled token.",
    "fullstop_queue_seconds": "Time that a request waited in the queue.",
    "fullstop_tokens_per_second": "Decoding speed of one answer.",
    "vllm:time_to_first_token_seconds": "Time from submission to the first sampled token.",
    "vllm:request_time_per_output_token_seconds": "Average time between the tokens of one answer.",
    "vllm:e2e_request_latency_seconds": "Time from submission to the end of the answer.",
    "vllm:request_queue_time_seconds": "Time in the queue.",
    "vllm:request_prefill_time_seconds": "Time for reading the prompt.",
    "vllm:request_decode_time_seconds": "Time from the first sampled token to the last.",
    "vllm:request_prompt_tokens": "Tokens of the prompt.",
    "vllm:request_generation_tokens": "Sampled tokens of one answer.",
}
_CACHE_USE = "Prompt cache in use, as a share of its limit, from 0 to 1."
# What each model is doing at the moment.
_GAUGES = {
    "fullstop_running": "Answers that are being generated.",
    "fullstop_waiting": "Requests that are waiting in the queue.",
    "fullstop_ready": "1 if the model answers requests, else 0.",
    "fullstop_model_memory_bytes": "Memory that the weights and caches of the model take.",
    "fullstop_prompt_cache_entries": "Earlier prompts of clients in the prompt cache.",
    "fullstop_prompt_cache_bytes": "Memory that these prompts take.",
    "fullstop_prompt_cache_snapshot_bytes": (
        "The part of it for snapshots of layers that cannot be cut back to an earlier token."
    ),
    "vllm:num_requests_running": "Answers that are being generated.",
    "vllm:num_requests_waiting": "Requests that wait in the queue.",
    "vllm:kv_cache_usage_perc": _CACHE_USE,
    "vllm:gpu_cache_usage_perc": _CACHE_USE,
}

# The time at which each counter was made would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.answered_requests = 0
        self.output_tokens = 0
        self._registry = registry = CollectorRegistry()
        self._open_requests = Gauge(
            "fullstop_open_requests", "Requests that are being answered.", registry=registry
        )
        self._requests = Counter(
            "fullstop_requests",
            "Requests answered, by dialect, route and HTTP status (499: the client disconnected).",
            ("dialect", "route", "status"),
            registry=registry,
        )
        self._request_s = Histogram(
            "fullstop_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ("dialect",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._stops = Counter(
            "fullstop_stops",
            "Answers that ended, by stop reason.",
            ("kind", "model"),
            registry=registry,
        )
        self._tokens = Counter(
            "fullstop_tokens",
            "Tokens: prompt (all, each prompt once), cached (those of them that needed no work), "
            "disk (those of the cached ones that came from disk), output (all sampled), thinking "
            "(those of them that were reasoning).",
            ("kind", "model"),
            registry=registry,
        )
        self._success = Counter(
            "vllm:request_success",
            "Answers that ended.",
            (*_VLLM_MODEL, "finished_reason"),
            registry=registry,
        )
        self._counters = {
            name: Counter(name, about, _labels_of(name), registry=registry)
            for name, about in _COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(
                name,
                about,
                _labels_of(name),
                buckets=_TOKENS if "tokens" in name else _SECONDS,
                registry=registry,
            )
            for name, about in _HISTOGRAMS.items()
        }
        self._gauges = {
            name: Gauge(name, about, _labels_of(name), registry=registry)
            for name, about in _GAUGES.items()
        }

    def request_began(self) -> None:
        self._open_requests.inc()

    def request_ended(self, dialect: str, route: str, status: int, took_s: float) -> None:
        self._open_requests.dec()
        self._requests.labels(dialect, route, str(status)).inc()
        self._request_s.labels(dialect).observe(took_s)
        self.answered_requests += 1

    def answer_ended(self, finished: Finished, model: str, *, counts_prompt: bool = True) -> None:
        """Count an answer that has ended, whatever the reason; a prompt of several counts once."""
        usage, timing, drafts = finished.usage, finished.timing, finished.speculation
        self.output_tokens += usage.output_tokens
        reason = _FINISHED_REASONS.get(finished.stop.kind, "stop")
        self._stops.labels(finished.stop.kind.value, model).inc()
        self._success.labels(model, _VLLM_ENGINE, reason).inc()
        tokens = {"output": usage.output_tokens, "thinking": usage.thinking_tokens}
        counts = {
            "fullstop_spec_decode_num_drafts": drafts.passes,
            "fullstop_spec_decode_num_draft_tokens": drafts.guessed,
            "fullstop_spec_decode_num_accepted_tokens": drafts.accepted,
            "fullstop_spec_decode_num_forced_tokens": drafts.forced,
            "vllm:generation_tokens": usage.output_tokens,
        }
        if counts_prompt:
            tokens["prompt"] = usage.prompt_tokens
            tokens["cached"], tokens["disk"] = usage.cached_tokens, usage.disk_tokens
            counts |= {
                "fullstop_prompt_cache_hits": bool(usage.cached_tokens),
                "fullstop_prompt_cache_hit_tokens": usage.cached_tokens,
                "vllm:prompt_tokens": usage.prompt_tokens,
                "vllm:prefix_cache_queries": usage.prompt_tokens,
                "vllm:prefix_cache_hits": usage.cached_tokens,
            }
        for kind, count in tokens.items():
            self._tokens.labels(kind, model).inc(count)
        for name, count in counts.items():
            self._counters[name].labels(*_label_values(name, model)).inc(count)
        speed = tokens_per_s(usage, timing)
        observed = {
            "fullstop_first_token_seconds": timing.first_token_s,
            "fullstop_queue_seconds": timing.queued_s,
            "fullstop_tokens_per_second": speed,
            "vllm:time_to_first_token_seconds": timing.first_token_s,
            "vllm:request_time_per_output_token_seconds": None if speed is None else 1 / speed,
            "vllm:e2e_request_latency_seconds": timing.total_s,
            "vllm:request_queue_time_seconds": timing.queued_s,
            "vllm:request_prefill_time_seconds": timing.prefill_s,
            "vllm:request_decode_time_seconds": timing.decode_s,
            "vllm:request_prompt_tokens": usage.prompt_tokens,
            "vllm:request_generation_tokens": usage.output_tokens,
        }
        for name, value in observed.items():
            if value is not None:
                self._histograms[name].labels(*_label_values(name, model)).observe(value)

    def exposition(self, statuses: Sequence[ModelStatus], cache_limit_bytes: int) -> bytes:
        for gauge in self._gauges.values():
            gauge.clear()
        for status in statuses:
            # The user's own chats are not the clients' to measure.
            shares = [share for name, share in status.cache_use.items() if name != LOCAL_OWNER.name]
            cached_bytes = sum(share.size_bytes for share in status.cache_use.values())
            cache_use = min(1.0, cached_bytes / max(1, cache_limit_bytes))
            values = {
                "fullstop_running": status.running,
                "fullstop_waiting": status.waiting,
                "fullstop_ready": status.is_loaded or status.is_unloaded,
                "fullstop_model_memory_bytes": status.memory_bytes,
                "fullstop_prompt_cache_entries": sum(share.entries for share in shares),
                "fullstop_prompt_cache_bytes": sum(share.size_bytes for share in shares),
                "fullstop_prompt_cache_snapshot_bytes": sum(
                    share.snapshot_bytes for share in shares
                ),
                "vllm:num_requests_running": status.running,
                "vllm:num_requests_waiting": status.waiting,
                "vllm:kv_cache_usage_perc": cache_use,
                "vllm:gpu_cache_usage_perc": cache_use,
            }
            for name, value in values.items():
                self._gauges[name].labels(*_label_values(name, status.id)).set(value)
        return exposition.generate_latest(self._registry)


def _labels_of(name: str) -> tuple[str, ...]:
    return _VLLM_MODEL if name.startswith("vllm:") else _MODEL


def _label_values(name: str, model: str) -> tuple[str, ...]:
    return (model, _VLLM_ENGINE) if name.startswith("vllm:") else (model,)
