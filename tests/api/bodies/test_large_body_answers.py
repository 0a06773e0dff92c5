"""Large bodies are answered like small ones, in the same words."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.dialects.shared.body_reader import read_request
from api.transport.bodies import SentBody
from engine import Engine
from tests.api.bodies.large import ANSWERS, ASK, PADDING, padded
from tests.api.protection.test_fuzz import BODIES
from tests.support.random_cases import few_of

# One fault in every place that the routes check.
WRONG: dict[str, Any] = {
    "messages": [1],
    "model": 7,
    "max_tokens": -3,
    "stop": [5],
    "stop_sequences": [""],
    "temperature": "warm",
    "top_p": 7,
    "tools": [{"name": ""}],
    "tool_choice": {"type": "z" * 300},
    "input": [{"type": "nothing"}],
    "prompt": [{"a": 1}],
    "options": {"temperature": 10**40},
    "sampling_params": {"logit_bias": {"x": 1}},
    "input_ids": ["1"],
    "text": {"a": 1},
    "stream": "yes",
    "n": 10**400,
    "fullstop": {"stop_scope": "nowhere"},
}


def gist(reply: Any) -> Any:
    """Return an answer without the parts that differ from one request to the next."""
    told = dict(reply.json)
    told.pop("request_id", None)
    return reply.status, told, reply.headers.get("x-should-retry")


@pytest.mark.parametrize("path", few_of(sorted(BODIES), 6))
def test_a_fault_in_a_large_body_is_reported_as_in_a_small_one(
    scripted_site: Any, path: str
) -> None:
    refused = 0
    for name, value in WRONG.items():
        body = BODIES[path] | {name: value}
        small, large = (
            scripted_site.send("POST", path, body),
            scripted_site.send("POST", path, padded(body)),
        )
        assert small.status == large.status
        if small.status != 200:
            assert gist(small) == gist(large)
            refused += 1
    assert refused >= 1


@pytest.mark.parametrize(
    "path", few_of(["/v1/messages", "/v1/chat/completions", "/generate", "/api/chat"], 2)
)
@pytest.mark.parametrize(
    "raw",
    [
        b'{"model": "m", "max_tokens": }',
        b'{"model": "\\ud800"}',
        b'{"model": "m", "n": NaN}',
        b'{"model": "m", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model": "\xff"}',
        b'{"max_tokens": ' + b"9" * 5000 + b"}",
    ],
    ids=["syntax", "surrogate", "NaN", "deep", "no UTF-8", "digits"],
)
def test_a_large_body_that_is_not_json_is_refused_in_the_same_words(
    site: Any, path: str, raw: bytes
) -> None:
    large = raw[:-1] + b', "user": "' + PADDING.encode() + b'"}'

    assert gist(site.send("POST", path, large)) == gist(site.send("POST", path, raw))


def test_a_large_request_is_answered_like_a_small_one(site: Any) -> None:
    for path, body in (
        ("/v1/messages", ASK),
        ("/v1/completions", {"model": "m", "prompt": ["a", "b"], "max_tokens": 2}),
        ("/generate", {"input_ids": [5, 6], "sampling_params": {"max_new_tokens": 2}}),
    ):
        small, large = (
            site.send("POST", path, body),
            site.send("POST", path, padded(body)),
        )
        assert (small.status, large.status) == (200, 200)


def test_a_long_conversation_reaches_the_model_complete(site: Any) -> None:
    body = ASK | {"messages": [{"role": "user", "content": "word " * 40_000 + "é👋"}]}
    # The count needs every character.
    small = site.send("POST", "/v1/messages/count_tokens", ASK | {"messages": [
        {"role": "user", "content": "word " * 10_000 + "é👋"}
    ]})  # fmt: skip
    large = site.send("POST", "/v1/messages/count_tokens", padded(ASK | {"messages": [
        {"role": "user", "content": "word " * 10_000 + "é👋"}
    ]}))  # fmt: skip
    assert small.status == large.status == 200
    assert small.json == large.json
    assert site.send("POST", "/v1/messages", body).status == 400


@pytest.mark.parametrize("path", few_of(ANSWERS, 4))
async def test_a_large_body_becomes_the_same_request_as_a_small_one(path: str) -> None:
    route = ANSWERS[path]
    fields = route.request.model_fields.keys() & {"n", "best_of"}
    asked_for = BODIES[path] | dict.fromkeys(fields, 3)
    small = SentBody(None, 1 << 25)
    small.add(json.dumps(asked_for).encode())
    large = SentBody(None, 1 << 25)
    large.add(padded(asked_for))

    here, beside = [
        (await read_request(one, route.request, route.read, strict=False)).requests()
        for one in (small, large)
    ]
    assert beside == here


@pytest.mark.parametrize("wide", ["👋", "—"])
@pytest.mark.parametrize("is_ascii", [False, True], ids=["UTF-8", "escaped"])
def test_a_text_that_would_take_many_times_its_size_in_memory_is_refused_in_words(
    serve: Callable[..., Any], wide: str, is_ascii: bool
) -> None:
    site = serve(max_body_bytes=600_000)

    def sent(text: str) -> Any:
        body = ASK | {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
        raw = json.dumps(body, ensure_ascii=is_ascii).encode()
        return site.send("POST", "/v1/messages/count_tokens", raw)

    assert sent("a" * 500_000).status != 413
    assert sent("a" * 130_000 + wide).status != 413
    refused = sent("a" * 500_000 + wide)
    assert refused.status == 413
    width = len(wide.encode("utf-16-le")) if wide == "—" else 4
    assert f"at most {600_000 // width:,} such characters" in refused.json["error"]["message"]


def test_a_large_body_waits_for_its_model_like_a_small_one(
    serve: Callable[..., Any], demo_model_path: Path
) -> None:
    engine, path = Engine(), "/v1/messages/count_tokens"
    site = serve(engine)
    try:
        small, large = BODIES[path], padded(BODIES[path])
        refused = site.send("POST", path, large)
        assert gist(refused) == gist(site.send("POST", path, small))
        assert refused.json["error"]["message"] == "no model is loaded"
        is_loading = threading.Event()

        async def load() -> None:
            loading = asyncio.create_task(engine.load(demo_model_path))
            ends_at = time.monotonic() + 60
            while engine.status.state not in ("loading", "ready"):
                assert time.monotonic() < ends_at
                await asyncio.sleep(0)
            is_loading.set()
            await loading

        thread = threading.Thread(target=lambda: asyncio.run(load()))
        thread.start()
        assert is_loading.wait(60)
        reply = site.send("POST", path, large)
        thread.join()
        assert reply.status == 200
    finally:
        engine.close()
