"""The metrics for Prometheus count requests, tokens and stops."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.engine import Engine
from engine.values.request import Limits
from tests.api.conftest import LONG
from tests.support.models.guessing import GuessingStage
from tests.support.scripted import GO

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


def test_guesses_are_counted(serve: Callable[..., Any], tmp_path: Path) -> None:
    stage = GuessingStage(tmp_path, {"go": [f"w{number} " for number in range(12)]}, wrong=[6, 7])
    engine = Engine(loader=stage.load)
    asyncio.run(engine.load(tmp_path))
    site = serve(engine)
    names = [
        (f"fullstop_spec_decode_num_{name}_total",)
        for name in ("drafts", "draft_tokens", "accepted_tokens", "forced_tokens")
    ]
    assert [numbers(site)[name] for name in names] == [0, 0, 0, 0]
    site.send("POST", "/generate", {"text": f"user:go{GO}"})
    passes, guessed, accepted, forced = (numbers(site)[name] for name in names)
    engine.close()

    assert 0 < passes <= accepted < guessed
    assert forced == 0


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


def test_a_hang_up_after_the_last_word_does_not_count_as_cancelled(busy: Any) -> None:
    site, _ = busy
    for _ in range(20):
        with site.open("POST", "/v1/chat/completions", CHAT | {"stream": True}) as response:
            while b"[DONE]" not in response.readline():
                pass
            response.readline()
            assert response.read() == b""
    found = numbers(site)
    route = ("fullstop_requests_total", "Chat Completions", "POST /v1/chat/completions")

    assert found[*route, "200"] == 20
    assert (*route, "499") not in found


def test_running_and_waiting_requests_are_counted(staged: Callable[..., Any]) -> None:
    stage = staged(Limits(max_rows=1))
    site = stage.site
    ask = {"text": f"user:{LONG}{GO}", "sampling_params": {"max_new_tokens": 2000}, "stream": True}
    with site.open("POST", "/generate", ask):
        waiting = site.open("POST", "/generate", ask, waits=False)
        assert stage.wait_until(lambda engine: engine.status.waiting == 1)
        found = numbers(site)
        waiting.close()

    assert found["fullstop_running",] == 1
    assert found["fullstop_waiting",] == 1
    assert found["fullstop_ready",] == 1
    # The connection of the request for the metrics is open, too.
    assert found["fullstop_open_requests",] == 3


def test_the_prompt_cache_is_measured(busy: Any) -> None:
    site, stage = busy
    chat = "/v1/chat/completions"
    cold = numbers(site)
    first = site.send("POST", chat, CHAT).json["usage"]
    assert stage.wait_until(lambda engine: engine.status.cache_use.entries == 1)
    once = numbers(site)
    second = site.send("POST", chat, CHAT).json["usage"]
    assert stage.wait_until(lambda engine: engine.status.cache_use.hits == 1)
    twice = numbers(site)
    entries, size, hits, tokens = (
        (f"fullstop_prompt_cache_{name}",)
        for name in ("entries", "bytes", "hits_total", "hit_tokens_total")
    )

    assert [cold[name] for name in (entries, size, hits, tokens)] == [0, 0, 0, 0]
    # The one layer keeps a key and a value for every token, as floats and in blocks.
    assert once[entries] == 1
    assert once[size] >= 8 * first["total_tokens"]
    assert once[hits] == 0
    assert twice[hits] == 1
    assert twice[tokens] == second["prompt_tokens_details"]["cached_tokens"] > 0


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


def test_an_unloaded_model_keeps_no_prompts(busy: Any) -> None:
    site, stage = busy
    site.send("POST", "/v1/chat/completions", CHAT)
    assert stage.wait_until(lambda engine: engine.status.cache_use.entries == 1)
    asyncio.run(stage.engine.unload())
    found = numbers(site)

    assert found["fullstop_prompt_cache_entries",] == 0
    assert found["fullstop_prompt_cache_bytes",] == 0


def test_two_servers_count_separately(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    engine = staged(step_s=0).engine
    one, two = serve(engine), serve(engine)
    one.send("POST", "/v1/chat/completions", CHAT)

    assert ("fullstop_stops_total", "max_tokens") in numbers(one)
    assert ("fullstop_stops_total", "max_tokens") not in numbers(two)


def test_the_metrics_need_the_key(serve: Callable[..., Any]) -> None:
    site = serve(api_key="secret")

    assert site.send("GET", "/metrics").status == 401
    reply = site.send("GET", "/metrics", headers={"Authorization": "Bearer secret"})
    assert reply.headers["content-type"].startswith("text/plain; version=")
