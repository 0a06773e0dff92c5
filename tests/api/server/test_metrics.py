"""The metrics for Prometheus count requests, tokens and stops."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.conftest import LONG

CHAT = {"model": "m", "messages": [{"role": "user", "content": LONG}], "max_tokens": 3}


def numbers(site: Any, model: str | None = None) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and its labels' values but the model's.

    Args:
        site: The server.
        model: The model whose samples are returned; None for the sums over all.
    """
    text = site.send("GET", "/metrics").body.decode()
    found: Counter[tuple[str, ...]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            of_model = labels.pop("model", labels.pop("model_name", None))
            labels.pop("engine", None)
            if model is None or of_model == model:
                found[sample.name, *labels.values()] += sample.value
    return found


@pytest.fixture
def busy(serve: Callable[..., Any], staged: Callable[..., Any]) -> tuple[Any, Any]:
    stage = staged(step_s=0)
    return serve(stage.engine), stage


def test_requests_are_counted_by_dialect_route_and_status(busy: Any) -> None:
    site, _ = busy
    site.send("POST", "/v1/chat/completions", CHAT)
    site.send("POST", "/v1/chat/completions", {})
    site.send("POST", "/v1/messages", CHAT)
    site.send("GET", "/made/up/by/a/client")
    found = numbers(site)
    name, chat = "fullstop_requests_total", "Chat Completions"

    assert found[name, chat, "POST /v1/chat/completions", "200"] == 1
    assert found[name, chat, "POST /v1/chat/completions", "400"] == 1
    assert found[name, "Messages", "POST /v1/messages", "200"] == 1
    assert found[name, "none", "unknown", "404"] == 1
    assert found["fullstop_request_seconds_count", chat] == 2
    assert not any("made" in part for key in found for part in key)


def test_tokens_and_stops_are_counted_exactly(busy: Any) -> None:
    site, _ = busy
    usages = [
        site.send("POST", "/v1/chat/completions", CHAT).json["usage"],
        site.send("POST", "/v1/chat/completions", CHAT | {"stop": "word"}).json["usage"],
    ]
    found = numbers(site)
    tokens = "fullstop_tokens_total"

    assert found["fullstop_stops_total", "max_tokens"] == 1
    assert found["fullstop_stops_total", "stop_string"] == 1
    assert found[tokens, "prompt"] == sum(usage["prompt_tokens"] for usage in usages)
    assert found[tokens, "output"] == sum(usage["completion_tokens"] for usage in usages)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    assert found[tokens, "cached"] == cached > 0
    assert found["fullstop_first_token_seconds_count",] == 2
    assert found["fullstop_tokens_per_second_count",] == 1


def test_an_answer_whose_client_left_is_counted_as_cancelled(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0.01)
    site = stage.site
    site.open("POST", "/v1/chat/completions", CHAT | {"max_tokens": 2000, "stream": True}).close()
    assert stage.wait_until_idle()

    assert stage.wait_until(
        lambda _: numbers(site).get(("fullstop_stops_total", "cancelled")) == 1.0
    )
    key = ("fullstop_requests_total", "Chat Completions", "POST /v1/chat/completions", "499")
    assert numbers(site)[key] == 1


def test_vllm_names_have_the_same_figures(busy: Any) -> None:
    site, _ = busy
    reply = site.send("POST", "/v1/chat/completions", CHAT | {"n": 2}).json
    site.send("POST", "/v1/chat/completions", CHAT | {"stop": "word"})
    found = numbers(site, reply["model"])

    assert found["vllm:request_success_total", "length"] == 2
    assert found["vllm:request_success_total", "stop"] == 1
    assert found["vllm:generation_tokens_total",] == found["fullstop_tokens_total", "output"] > 0
    assert found["vllm:prompt_tokens_total",] == found["fullstop_tokens_total", "prompt"]
    # Both choices have one prompt, as ``usage`` counts it.
    assert found["vllm:prompt_tokens_total",] == 2 * reply["usage"]["prompt_tokens"]
    for name in (
        "time_to_first_token_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prompt_tokens",
    ):
        assert found[f"vllm:{name}_count",] == 3
    assert found["vllm:num_requests_running",] == found["vllm:num_requests_waiting",] == 0
    assert 0 <= found["vllm:kv_cache_usage_perc",] <= 1
    assert found["vllm:gpu_cache_usage_perc",] == found["vllm:kv_cache_usage_perc",]


def test_the_metrics_need_the_key(serve: Callable[..., Any]) -> None:
    site = serve(api_key="secret")

    assert site.send("GET", "/metrics").status == 401
    reply = site.send("GET", "/metrics", headers={"Authorization": "Bearer secret"})
    assert reply.headers["content-type"].startswith("text/plain; version=")
