"""Parts of a request without effect: the report and the header of every API name the same ones."""

import json
from typing import Any

import pytest

from tests.api.conftest import Site

TURNS = [{"role": "user", "content": "Count from 1 to 3"}]
REPORT = {"fullstop": {"report": True, "min_tokens": 3}}
GREEDY = {"temperature": 0, "top_k": 5}
COLD = "(the temperature is 0)"
ASKED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "/v1/chat/completions": (
        {"messages": TURNS, "max_tokens": 3, "seed": 1, "stop": ["x"], **GREEDY},
        [f"top_k {COLD}", f"seed {COLD}", "stop[0] (min_tokens reaches the limit of 3)"],
    ),
    "/v1/completions": (
        {"prompt": "One", "max_tokens": 3, "top_p": 0.5, **GREEDY},
        [f"top_p {COLD}", f"top_k {COLD}", "fullstop.min_tokens (there are no stops)"],
    ),
    "/v1/messages": (
        {"messages": TURNS, "max_tokens": 3, "stop_sequences": ["x"], **GREEDY},
        [f"top_k {COLD}", "stop_sequences[0] (min_tokens reaches the limit of 3)"],
    ),
    "/v1/responses": (
        {"input": "Hi", "max_output_tokens": 3, "reasoning": {"effort": "high"}, **GREEDY},
        [
            "reasoning.effort (this model knows no efforts)",
            f"top_k {COLD}",
            "fullstop.min_tokens (there are no stops)",
        ],
    ),
    "/api/chat": (
        {"messages": TURNS, "options": {"num_predict": 3, "seed": 2, "min_p": 0.1, **GREEDY}},
        [
            f"options.top_k {COLD}",
            f"options.min_p {COLD}",
            f"options.seed {COLD}",
            "fullstop.min_tokens (there are no stops)",
        ],
    ),
    "/generate": (
        {"text": "One", "sampling_params": {"max_new_tokens": 9, "stop": ["ab", "xaby"], **GREEDY}},
        [
            f"sampling_params.top_k {COLD}",
            "sampling_params.stop[1] (another stop is always complete before it)",
        ],
    ),
}


def reports(value: Any) -> list[dict[str, Any]]:
    found = [value["fullstop"]] if isinstance(value, dict) and "fullstop" in value else []
    values = value.values() if isinstance(value, dict) else value
    inner = values if isinstance(value, dict | list) else ()
    return [*found, *(report for one in inner for report in reports(one))]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ASKED)
def test_overruled_options_are_named_in_report_and_header(
    site: Site, path: str, is_streamed: bool
) -> None:
    fields, overruled = ASKED[path]
    own = REPORT | {"model": "m"} if path != "/generate" else {"fullstop": {"report": True}}
    body = {**own, **fields, "stream": is_streamed, "no_such_field": 1}
    reply = site.send("POST", path, body)
    assert reply.status == 200, reply.body
    lines = [line.removeprefix("data: ") for line in reply.body.decode().splitlines()]
    parsed = [json.loads(line) for line in lines if line.startswith("{")]
    found = reports(parsed)
    assert found[-1]["no_effect"] == ["no_such_field", *overruled]
    assert reply.headers["x-fullstop-not-applied"] == ", ".join(found[-1]["no_effect"])


def test_tools_of_left_out_kinds_are_named_in_the_report(site: Site) -> None:
    body = {"input": "Hi", "max_output_tokens": 2, "tools": [{"type": "web_search"}], **REPORT}
    reply = site.send("POST", "/v1/responses", {"model": "m", **body})
    assert "tools (web_search)" in reports(reply.json)[-1]["no_effect"]


@pytest.mark.parametrize("given", [{}, {"thinking": {"type": "disabled"}}])
def test_switch_of_reasoning_is_named_where_the_client_gave_it(
    scripted_site: Site, given: dict[str, Any]
) -> None:
    body = {"model": "m", "messages": TURNS, "max_tokens": 2, **given, "fullstop": {"report": True}}
    [report] = reports(scripted_site.send("POST", "/v1/messages", body).json)
    switch = ["thinking (the chat template has no switch for it)"]
    assert report["no_effect"] == (switch if given else [])
