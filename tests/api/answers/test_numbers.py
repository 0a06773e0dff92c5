"""Numbers outside their range are refused by name in every dialect, never with a 500."""

import json
from typing import Any

import pytest

from tests.api.dialects.documented import check_request
from tests.api.questions import INNER, PATHS, question

WHOLE: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [{"max_tokens": 5.0, "top_k": 3.0, "stop_token_ids": [7.0]}],
    "/v1/chat/completions": [
        {"max_tokens": 2.0, "n": 2.0, "seed": 7.0, "top_k": 3.0, "stop_token_ids": [7.0, 8]},
    ],
    "/v1/completions": [{"prompt": [[5.0], [6, 7.0]], "max_tokens": 2}],
    "/generate": [{"sampling_params": {"max_new_tokens": 2.0, "n": 1.0, "stop_token_ids": [7.0]}}],
    "/api/chat": [{"options": {"num_predict": 2.0, "top_k": 3.0, "seed": 1.0, "mirostat": 0.0}}],
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
    good = question(path, "a", 2) if path in PATHS else {}
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
    good = question(path, "a", 2) if path in PATHS else {}
    outer = INNER.get(path, "")
    body = good | ({outer: {name: "HERE"}} if outer else {name: "HERE"})
    raw = json.dumps(body).replace('"HERE"', wrong).encode()
    reply = site.send("POST", path, raw)
    assert reply.status == 400, reply.body
    assert name in reply.body.decode()
