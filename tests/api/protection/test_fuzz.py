"""Whatever is posted to any route: no 5xx, every error in its envelope, the engine alive."""

import copy
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.server.routes import ROUTES
from engine.scheduling.limits import Limits
from tests.support.random_cases import cases
from tests.support.scripted import GO

EXAMPLES = cases(200)

TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
# Bodies that are right, with as many fields as there are ways to break.
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "model": "m",
        "max_tokens": 4,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}],
            },
        ],
        "system": [{"type": "text", "text": "Be brief."}],
        "stop_sequences": ["END"],
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "fullstop": {"stop_scope": "text", "report": True},
    },
    "/v1/messages/count_tokens": {"model": "m", "messages": TURNS, "system": "Be brief."},
    "/v1/chat/completions": {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, *TURNS],
        "max_completion_tokens": 4,
        "n": 2,
        "stop": ["END", "\n"],
        "stop_token_ids": [5],
        "stream": False,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "seed": 5,
        "logit_bias": {"5": 1.5},
        "logprobs": True,
        "presence_penalty": 0.5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "tool_choice": "auto",
        "reasoning_effort": "none",
        "thinking_token_budget": 3,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "/v1/completions": {
        "model": "m",
        "prompt": [f"user:Hi{GO}", "x"],
        "max_tokens": 4,
        "n": 1,
        "best_of": 1,
        "echo": True,
        "logprobs": 1,
        "stop": "END",
        "stream": True,
        "suffix": None,
    },
    "/v1/responses/input_tokens": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
    },
    "/v1/responses/compact": {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "compaction", "encrypted_content": "fullstop-summary-1:SGk="},
            {"type": "message", "role": "user", "content": "Go on"},
        ],
        "instructions": "Be brief.",
        "max_output_tokens": 8,
    },
    "/v1/responses": {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
        ],
        "instructions": "Be brief.",
        "max_output_tokens": 16,
        "stream": True,
        "stop": ["END"],
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "thinking_budget": 3,
    },
    "/generate": {
        "text": [f"user:Hi{GO}", "x"],
        "sampling_params": {
            "max_new_tokens": 4,
            "stop": ["END"],
            "stop_token_ids": [5],
            "temperature": 0.5,
            "n": 1,
            "min_new_tokens": 1,
            "ignore_eos": False,
            "logit_bias": {"5": 1.5},
        },
        "return_logprob": True,
        "top_logprobs_num": 2,
        "logprob_start_len": 0,
        "token_ids_logprob": [5, 6],
        "stream": True,
        "rid": "r",
    },
    "/api/chat": {
        "model": "m",
        "messages": [
            *TURNS,
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "tool_name": "f", "content": "1"},
        ],
        "stream": True,
        "think": False,
        "format": "",
        "options": {"stop": ["END"], "num_predict": 4, "temperature": 0.5, "seed": 3},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    },
    "/api/generate": {
        "model": "m",
        "prompt": "Hi",
        "system": "Be brief.",
        "raw": False,
        "stream": False,
        "options": {"num_predict": 4},
    },
    "/api/show": {"model": "scripted"},
    "/tokenize": {
        "model": "m",
        "messages": TURNS,
        "add_generation_prompt": True,
        "return_token_strs": True,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "/detokenize": {"model": "m", "tokens": [5, 6]},
}

WORDS = st.sampled_from(
    ["", "text", "type", "role", "user", "tool", "json_object", "json_schema", "required", "END"]
)
ODD_NUMBERS = st.sampled_from([0, -1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.0, -0.0, 1e308])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ODD_NUMBERS | WORDS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
RAW = st.binary(max_size=40) | st.sampled_from(
    [b"NaN", b'{"model": Infinity}', b"[" * 100_000, b'{"a":' * 5_000, b'"\\ud800"', b"1" * 5_000]
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places_in(item, (*path, key))
    return found


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a path and a body: a right one with up to three changes, any JSON, or any bytes."""
    path = draw(st.sampled_from(sorted(BODIES)))
    kind = draw(st.sampled_from(["changed"] * 8 + ["any", "raw"]))
    if kind == "raw":
        return path, draw(RAW)
    if kind == "any":
        return path, json.dumps(draw(VALUES)).encode()
    body = copy.deepcopy(BODIES[path])
    for _ in range(draw(st.integers(1, 3))):
        places = places_in(body)
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
        at: Any = body
        for key in parents:
            at = at[key]
        if draw(st.integers(0, 4)) == 0:
            del at[last]
        else:
            at[last] = draw(VALUES)
    return path, json.dumps(body).encode()


def check_envelope(path: str, body: Any) -> None:
    """Check the shape of an error."""
    if path.startswith("/v1/messages"):
        assert body["type"] == "error"
        assert body["error"].keys() >= {"type", "message"}
    elif path.startswith("/v1/"):
        assert body["error"].keys() == {"message", "type", "param", "code"}
    elif path.startswith("/api/"):
        assert body.keys() == {"error"}
        assert isinstance(body["error"], str)
    else:
        assert isinstance(body["error"]["message"], str)


def test_there_is_a_body_for_every_posted_route() -> None:
    assert BODIES.keys() == {route.path for route in ROUTES if route.request is not None}


@pytest.mark.parametrize("path", sorted(BODIES))
def test_the_bodies_to_be_broken_are_right(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str
) -> None:
    reply = serve(staged(step_s=0).engine).send("POST", path, BODIES[path])

    assert reply.status == 200, reply.body


def test_no_body_breaks_the_server(serve: Callable[..., Any], staged: Callable[..., Any]) -> None:
    stage = staged(Limits(max_waiting=1000), step_s=0, context=4096)
    site = serve(stage.engine)
    connection = http.client.HTTPConnection(site.host, site.address.port, timeout=30)
    statuses: dict[int, int] = {}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies())
    def holds(sent: tuple[str, bytes]) -> None:
        path, body = sent
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        statuses[response.status] = statuses.get(response.status, 0) + 1
        assert response.status < 500, answer
        if response.status != 200:
            check_envelope(path, json.loads(answer))
        else:
            assert b"internal error" not in answer

    try:
        holds()
    finally:
        connection.close()
    # Neither all right nor all wrong, or nothing has been tried.
    assert statuses[200] > EXAMPLES // 50
    assert statuses[400] > EXAMPLES // 5
    assert stage.wait_until_idle()
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    assert site.send("POST", "/v1/messages", ask).json["content"][0]["text"] == "Hello"
