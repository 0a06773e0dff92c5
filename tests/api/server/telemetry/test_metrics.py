from collections.abc import Callable
from typing import Any

import pytest

from tests.support.outside.collector import Collector, plain

CHAT = [{"role": "user", "content": "Count from 1 to 10, one number per line"}]
Told = Callable[..., Any]


def test_histograms_contain_tokens_durations_and_speed(told: Told, collector: Collector) -> None:
    asked = {"model": "made-up", "messages": CHAT, "max_tokens": 5, "temperature": 0}
    with told() as site:
        for is_stream in (False, True):
            site.send("POST", "/v1/chat/completions", {**asked, "stream": is_stream})
        usage = site.send("POST", "/v1/chat/completions", asked).json["usage"]
        site.send("POST", "/v1/chat/completions", {"model": "made-up"})
    found = collector.metrics
    tokens = {
        plain(p.attributes)["gen_ai.token.type"]: p for p in found["gen_ai.client.token.usage"]
    }
    assert tokens["input"].sum == 3 * usage["prompt_tokens"]
    assert (tokens["output"].count, tokens["output"].sum) == (3, 15)
    durations = {
        plain(p.attributes).get("error.type"): p for p in found["gen_ai.server.request.duration"]
    }
    assert {error: point.count for error, point in durations.items()} == {
        None: 3,
        "invalid_request": 1,
    }
    assert durations[None].sum > 0
    assert list(durations[None].explicit_bounds)[:3] == [0.01, 0.02, 0.04]
    for name in ("gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token"):
        (point,) = found[name]
        assert point.count == 3
        assert point.sum > 0
        # A name that a client makes up does not become a label.
        assert plain(point.attributes) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "fullstop",
            "gen_ai.request.model": "demo-model",
            "gen_ai.response.model": "demo-model",
            "server.address": "127.0.0.1",
            "server.port": site.address.port,
        }


@pytest.mark.parametrize("off", ["TRACES", "METRICS"])
def test_either_signal_can_be_switched_off(
    told: Told, collector: Collector, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    monkeypatch.setenv(f"OTEL_{off}_EXPORTER", "none")
    with told() as site:
        site.send("POST", "/v1/messages", {"model": "m", "max_tokens": 2, "messages": CHAT})
    kept = "/v1/metrics" if off == "TRACES" else "/v1/traces"
    assert {path for path, _ in collector.bodies} == {kept}
