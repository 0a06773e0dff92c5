"""Numbers outside their range are refused by name in every dialect, never with a 500."""

import json
from typing import Any

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.ollama.wire import ChatParams, OllamaOptions
from api.dialects.ollama.wire import PromptParams as OllamaParams
from api.dialects.openai.chat_wire import ChatCompletionParams
from api.dialects.openai.completions import CompletionParams
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang.wire import GenerateParams, SamplingParams
from api.dialects.shared.body import WireModel
from tests.api.dialects.documented import check_request

TURN = [{"role": "user", "content": "Say: yes"}]
GOOD: dict[str, tuple[type[WireModel], dict[str, Any]]] = {
    "/v1/messages": (MessageCreateParams, {"model": "m", "max_tokens": 2, "messages": TURN}),
    "/v1/chat/completions": (
        ChatCompletionParams,
        {"model": "m", "max_tokens": 2, "messages": TURN},
    ),
    "/v1/completions": (CompletionParams, {"model": "m", "max_tokens": 2, "prompt": "a"}),
    "/v1/responses": (ResponseParams, {"model": "m", "max_output_tokens": 2, "input": "a"}),
    "/generate": (GenerateParams, {"text": "a", "sampling_params": {"max_new_tokens": 2}}),
    "/api/chat": (ChatParams, {"model": "m", "messages": TURN, "options": {"num_predict": 2}}),
    "/api/generate": (OllamaParams, {"model": "m", "prompt": "a", "options": {"num_predict": 2}}),
}
INNER: dict[str, tuple[str, type[WireModel]]] = {
    "/generate": ("sampling_params", SamplingParams),
    "/api/chat": ("options", OllamaOptions),
    "/api/generate": ("options", OllamaOptions),
}
LONG = "9" * 5000


def bodies(path: str, value: str) -> list[tuple[str, bytes]]:
    """Return a request for each field of a route, with the number in that field."""
    model, good = GOOD[path]
    found = [
        (name, json.dumps(good | {name: "HERE"}).replace('"HERE"', value).encode())
        for name in model.model_fields
    ]
    if path in INNER:
        outer, inner = INNER[path]
        found += [
            (
                name,
                json.dumps(good | {outer: good[outer] | {name: "HERE"}})
                .replace('"HERE"', value)
                .encode(),
            )
            for name in inner.model_fields
        ]
    return found


@pytest.mark.parametrize("value", [LONG, "-1e400"])
def test_number_beyond_all_bounds_is_refused(scripted_site: Any, value: str) -> None:
    _, body = bodies("/v1/messages", value)[0]
    reply = scripted_site.send("POST", "/v1/messages", body)
    assert reply.status == 400
    assert len(reply.body) < 1000


@pytest.mark.parametrize("value", [str(2**63), str(-(2**63)), "1e300", "-0.0", "9" * 400])
@pytest.mark.parametrize("path", GOOD)
def test_a_large_number_never_breaks_the_server(scripted_site: Any, path: str, value: str) -> None:
    for name, body in bodies(path, value):
        # The test does not need answers that are as long as the context allows.
        if name not in ("max_tokens", "num_predict", "max_new_tokens", "seed", "max_output_tokens"):
            reply = scripted_site.send("POST", path, body)
            assert reply.status < 500, (name, reply.body)


WHOLE: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [
        {"max_tokens": 5.0, "top_k": 3.0, "stop_token_ids": [7.0]},
        {"max_tokens": 2, "thinking": {"type": "enabled", "budget_tokens": 5.0}},
    ],
    "/v1/chat/completions": [
        {"max_tokens": 2.0, "n": 2.0, "seed": 7.0, "top_k": 3.0, "stop_token_ids": [7.0, 8]},
        {"max_completion_tokens": 2.0, "logprobs": True, "top_logprobs": 1.0, "best_of": 1.0},
        {"max_tokens": 2, "thinking_budget": 3.0, "chat_template_kwargs": {"thinking_budget": 3.0}},
        {
            "max_tokens": 2,
            "prompt_logprobs": 1.0,
            "min_tokens": 1.0,
            "fullstop": {"min_tokens": 0.0},
        },
        {"max_tokens": 2, "reasoning": {"max_tokens": 9.0}},
    ],
    "/v1/completions": [
        {"max_tokens": 2.0, "n": 2.0, "best_of": 2.0, "logprobs": 1.0, "seed": -1.0},
        {"prompt": [5.0, 6], "max_tokens": 2},
        {"prompt": [[5.0], [6, 7.0]], "max_tokens": 2},
    ],
    "/v1/responses": [{"max_output_tokens": 2.0, "top_logprobs": 2.0, "seed": 7.0}],
    "/generate": [
        {"sampling_params": {"max_new_tokens": 2.0, "n": 1.0, "stop_token_ids": [7.0]}},
        {"text": None, "input_ids": [5.0, 6], "sampling_params": {"max_new_tokens": 2}},
        {
            "sampling_params": {"max_new_tokens": 2, "sampling_seed": 3.0},
            "return_logprob": True,
            "logprob_start_len": 0.0,
            "top_logprobs_num": 1.0,
        },
    ],
    "/api/chat": [
        {"options": {"num_predict": 2.0, "top_k": 3.0, "seed": 1.0, "mirostat": 0.0}},
        {"options": {"num_predict": 2}, "logprobs": True, "top_logprobs": 1.0},
    ],
    "/api/generate": [{"options": {"num_predict": 2.0, "seed": -1.0}, "context": []}],
    "/tokenize": [{"messages": TURN, "thinking_budget": 3.0}],
    "/detokenize": [{"tokens": [5.0, 6]}],
}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        pytest.param(path, fields, id=f"{path}-{number}")
        for path, bodies in WHOLE.items()
        for number, fields in enumerate(bodies)
    ],
)
def test_a_whole_number_may_be_written_as_a_decimal(
    site: Any, path: str, fields: dict[str, Any]
) -> None:
    good = GOOD[path][1] if path in GOOD else {}
    check_request(path, good | fields)
    reply = site.send("POST", path, good | {"stream": False} | fields)
    assert reply.status == 200, reply.body
    as_integers = json.loads(json.dumps(good | {"stream": False} | fields), parse_float=_whole)
    assert site.send("POST", path, as_integers).status == 200


def _whole(text: str) -> int:
    assert text.endswith(".0")
    return int(float(text))


@pytest.mark.parametrize("value", ["5.5", "-0.5", "1e300", '"5"', "true"])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/messages", "max_tokens"),
        ("/v1/chat/completions", "max_tokens"),
        ("/v1/chat/completions", "stop_token_ids"),
        ("/v1/completions", "logprobs"),
        ("/v1/responses", "max_output_tokens"),
        ("/generate", "max_new_tokens"),
        ("/api/chat", "num_predict"),
        ("/detokenize", "tokens"),
    ],
)
def test_what_is_no_whole_number_is_refused_by_name(
    site: Any, path: str, name: str, value: str
) -> None:
    wrong = f"[{value}]" if name in ("stop_token_ids", "tokens") else value
    good = GOOD[path][1] if path in GOOD else {}
    outer = INNER[path][0] if path in INNER else ""
    body = good | ({outer: {name: "HERE"}} if outer else {name: "HERE"})
    raw = json.dumps(body).replace('"HERE"', wrong).encode()
    reply = site.send("POST", path, raw)
    assert reply.status == 400, reply.body
    assert name in reply.body.decode()
