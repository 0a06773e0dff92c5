"""Every answer, whole and streamed, is what the OpenAPI document says of it, and nothing more."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from api.server.openapi import EVENT_SCHEMA, document
from api.server.routes import ROUTES
from engine.scheduling.service import Engine
from tests.api.conftest import GOLDEN

DOCUMENT = document(ROUTES)

COUNT = "Count from 1 to 3, one number per line"
TURNS = [{"role": "user", "content": COUNT}]
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
REPORT = {"fullstop": {"report": True}}

# For each route: bodies that make answers of every kind.
ASKED: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [
        {"messages": TURNS, "max_tokens": 20},
        {"messages": TURNS, "max_tokens": 3, "stop_sequences": ["2"], **REPORT},
        {
            "messages": TURNS,
            "max_tokens": 60,
            "tools": [{"name": "get_weather", "input_schema": WEATHER["parameters"]}],
            "tool_choice": {"type": "any"},
        },
        {"messages": TURNS, "max_tokens": 30, "thinking": {"type": "adaptive"}},
    ],
    "/v1/messages/count_tokens": [{"messages": TURNS}],
    "/v1/chat/completions": [
        {"messages": TURNS, "max_tokens": 20, "stop": "2", **REPORT},
        {"messages": TURNS, "max_tokens": 9, "n": 2, "logprobs": True, "top_logprobs": 2},
        {
            "messages": TURNS,
            "max_tokens": 60,
            "tools": [{"type": "function", "function": WEATHER}],
            "tool_choice": "required",
        },
        {"messages": TURNS, "max_tokens": 30, "reasoning_effort": "high"},
        {"messages": TURNS, "max_tokens": 3, "stream_options": {"include_usage": True}},
    ],
    "/v1/completions": [
        {"prompt": COUNT, "max_tokens": 5, "stop": "2", **REPORT},
        {"prompt": [COUNT, "Hi"], "max_tokens": 5, "logprobs": 2},
        {"prompt": [COUNT, "Hi"], "max_tokens": 0, "logprobs": 1, "echo": True},
        {"prompt": COUNT, "max_tokens": 5, "stream_options": {"include_usage": True}},
    ],
    "/v1/responses": [
        {"input": COUNT, "max_output_tokens": 20, "stop": "2"},
        {"input": TURNS, "max_output_tokens": 3, "top_logprobs": 2},
        {
            "input": COUNT,
            "max_output_tokens": 60,
            "tools": [{"type": "function", **WEATHER}],
            "tool_choice": "required",
        },
        {"input": COUNT, "max_output_tokens": 30, "reasoning": {"effort": "high"}},
        {"input": COUNT, "max_output_tokens": 30, "reasoning": {"summary": "auto"}},
        {"input": COUNT, "max_output_tokens": 90, "text": {"format": {"type": "json_object"}}},
    ],
    "/v1/responses/compact": [{"input": TURNS, "max_output_tokens": 5}],
    "/v1/responses/input_tokens": [{"input": COUNT}, {"input": TURNS, "instructions": "Hi"}],
    "/generate": [
        {"text": COUNT, "sampling_params": {"max_new_tokens": 9, "stop": "2"}, **REPORT},
        {
            "text": [COUNT, "Hi"],
            "sampling_params": {"max_new_tokens": 3},
            "return_logprob": True,
            "top_logprobs_num": 2,
        },
        {
            "text": COUNT,
            "sampling_params": {"max_new_tokens": 2},
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": 1,
            "token_ids_logprob": [5],
            "return_text_in_logprobs": True,
        },
    ],
    "/api/chat": [
        {"messages": TURNS, "options": {"num_predict": 20, "stop": ["2"]}, **REPORT},
        {
            "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
            "options": {"num_predict": 60},
            "tools": [{"type": "function", "function": WEATHER}],
        },
        {"messages": TURNS, "options": {"num_predict": 30}, "think": True},
        {"messages": []},
        {"messages": TURNS, "options": {"num_predict": 3}, "logprobs": True, "top_logprobs": 2},
    ],
    "/api/generate": [
        {"prompt": COUNT, "options": {"num_predict": 5}, "logprobs": True},
        {"prompt": ""},
    ],
    "/tokenize": [{"prompt": COUNT}, {"messages": TURNS, "return_token_strs": True}],
    "/detokenize": [{"tokens": [5, 6]}],
    "/api/show": [{"model": "demo-model"}],
}
STREAMED = [path for path in ASKED if not path.endswith(("tokens", "show", "compact", "tokenize"))]
# The folders of golden event lists, and the route whose streams they are.
CONVERSATIONS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "generate": "/generate",
    "ollama_chat": "/api/chat",
    "ollama_generate": "/api/generate",
}


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no other fields than those that it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


CLOSED = closed(copy.deepcopy(DOCUMENT["components"]["schemas"]))


def check(schema: dict[str, Any], value: Any) -> None:
    """Check that a value is what a schema of the document says and holds nothing else."""
    whole = {**closed(schema), "components": {"schemas": CLOSED}}
    errors = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in Draft202012Validator(whole).iter_errors(value)
    ]
    assert not errors, (errors[:3], value)


def answers_of(path: str, method: str = "post") -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path][method]["responses"]
    return found


def answer_schema(path: str, method: str = "post", status: str = "200") -> dict[str, Any]:
    found: dict[str, Any] = answers_of(path, method)[status]["content"]["application/json"]
    return found["schema"]


def event_schema(path: str) -> dict[str, Any]:
    [found] = [one for one in answers_of(path)["200"]["content"].values() if EVENT_SCHEMA in one]
    return found[EVENT_SCHEMA]


WITH_BODIES = [route.path for route in ROUTES if route.request is not None]
EACH = [
    pytest.param(path, body, id=f"{path}-{number}")
    for path, bodies in ASKED.items()
    for number, body in enumerate(bodies)
]


def test_every_posted_route_is_asked() -> None:
    assert ASKED.keys() == set(WITH_BODIES)
    assert set(STREAMED) == {route.path for route in ROUTES if route.stream is not None}
    assert set(CONVERSATIONS.values()) == set(STREAMED)


@pytest.mark.parametrize(("path", "body"), EACH)
def test_a_whole_answer(site: Any, path: str, body: dict[str, Any]) -> None:
    reply = site.send("POST", path, {"model": "demo-model", "stream": False, **body})

    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)


@pytest.mark.parametrize(("path", "body"), [one for one in EACH if one.values[0] in STREAMED])
def test_every_event_of_a_stream(site: Any, path: str, body: dict[str, Any]) -> None:
    reply = site.send("POST", path, {"model": "demo-model", "stream": True, **body})
    lines = reply.body.decode().splitlines()
    found = [
        json.loads(line.removeprefix("data: "))
        for line in lines
        if line.startswith(("data: {", "{"))
    ]

    assert reply.status == 200, reply.body
    assert found
    for one in found:
        check(event_schema(path), one)


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*/*.json")), ids=lambda one: one.stem)
def test_every_event_of_a_golden_conversation(file: Path) -> None:
    for name, data in json.loads(file.read_text(encoding="utf-8")):
        if data != "[DONE]":
            check(event_schema(CONVERSATIONS[file.parent.name]), data)
            assert name in (None, data.get("type"))


@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if one.method == "GET" and one.answer is not None],
    ids=lambda route: route.path,
)
def test_what_is_got(site: Any, route: Any) -> None:
    kept = site.send("POST", "/v1/responses", {"model": "m", "input": COUNT}).json["id"]
    path = route.path.replace("{id}", "demo-model").replace("{response_id}", kept)
    reply = site.send("GET", path)

    assert reply.status == 200
    check(answer_schema(route.path, "get"), reply.json)


def test_what_is_deleted(site: Any) -> None:
    kept = site.send("POST", "/v1/responses", {"model": "m", "input": COUNT}).json["id"]
    reply = site.send("DELETE", f"/v1/responses/{kept}")

    assert reply.status == 200
    check(answer_schema("/v1/responses/{response_id}", "delete"), reply.json)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/flush_cache"), ("GET", "/flush_cache"), ("GET", "/server_info")],
)
def test_what_is_told_of_the_server(site: Any, method: str, path: str) -> None:
    check(answer_schema(path, method.lower()), site.send(method, path).json)


def test_health_without_a_model(serve: Callable[..., Any]) -> None:
    engine = Engine()
    reply = serve(engine).send("GET", "/health")
    engine.close()

    assert reply.status == 503
    check(answer_schema("/health", "get", "503"), reply.json)


@pytest.mark.parametrize("path", WITH_BODIES)
@pytest.mark.parametrize("body", [{}, b"{", b"\xff"], ids=["empty", "broken", "no text"])
def test_errors(site: Any, path: str, body: Any) -> None:
    reply = site.send("POST", path, body)

    assert reply.status == 400
    check(answer_schema(path, status="default"), reply.json)


def test_a_wrong_method_and_a_wrong_key(serve: Callable[..., Any]) -> None:
    site = serve(api_key="secret")
    for path in ASKED:
        for reply in (site.send("PUT", path), site.send("POST", path, {})):
            assert reply.status in (401, 405)
            check(answer_schema(path, status="default"), reply.json)


# The forms in which a field may be written; each is both documented and accepted.
BLOCKS = [{"type": "text", "text": "Hi"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FORMS: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [
        {"max_tokens": 2, "messages": [{"role": "user", "content": BLOCKS}], "system": "Be brief."},
        {"max_tokens": 2, "messages": TURNS, "system": BLOCKS, "stop_sequences": None},
        {"max_tokens": 2, "messages": TURNS, "stop_sequences": [], "tools": []},
    ],
    "/v1/chat/completions": [
        {"messages": TURNS, "max_tokens": 2, "stop": stop} for stop in (None, "x", ["x"], [])
    ]
    + [
        {"messages": [*TURNS, turn, *TURNS], "max_tokens": 2}
        for turn in (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "assistant", "content": ""},
            {"role": "assistant"},
            {"role": "developer", "content": BLOCKS},
            {"role": "tool", "tool_call_id": "c", "content": BLOCKS},
        )
    ],
    "/v1/completions": [
        {"prompt": prompt, "max_tokens": 2, "best_of": None, "suffix": None, "logprobs": None}
        for prompt in ("Hi", ["Hi", "Ho"], [1, 2], [[1], [2, 3]])
    ],
    "/v1/responses": [
        {"input": sent, "max_output_tokens": 2}
        for sent in (
            "Hi",
            [{"role": "user", "content": "Hi"}],
            [{"type": "message", "role": "developer", "content": "Hi"}],
            [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            [
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "1"},
            ],
        )
    ],
    "/generate": [
        {**prompt, "sampling_params": {"max_new_tokens": 2}}
        for prompt in (
            {"text": "Hi"},
            {"text": ["Hi", "Ho"]},
            {"input_ids": [1, 2]},
            {"input_ids": [[1], [2, 3]]},
        )
    ],
    "/api/chat": [
        {"messages": TURNS, "options": {"num_predict": 2, "stop": stop}, "format": form}
        for stop, form in (("x", ""), (["x"], None), (None, "json"), ([], {"type": "object"}))
    ],
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(path, body, id=f"{path}-{number}")
        for path, bodies in FORMS.items()
        for number, body in enumerate(bodies)
    ],
)
def test_every_form_of_a_field_is_taken(site: Any, path: str, body: dict[str, Any]) -> None:
    sent = {"model": "demo-model", "stream": False, **body}
    check_request(path, sent)
    reply = site.send("POST", path, sent)

    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": 5}),
        ("/v1/completions", {"prompt": ["Hi", 5]}),
        ("/v1/responses", {"input": 5}),
        ("/v1/responses", {"input": [{"role": "user", "content": 5}]}),
        ("/v1/chat/completions", {"messages": TURNS, "stop": 5}),
        ("/v1/chat/completions", {"messages": TURNS, "tool_choice": 5}),
        ("/v1/messages", {"messages": TURNS, "max_tokens": 2, "stop_sequences": "x"}),
        ("/api/chat", {"messages": TURNS, "format": 5}),
    ],
)
def test_a_form_that_is_refused_is_not_documented(
    site: Any, path: str, body: dict[str, Any]
) -> None:
    sent = {"model": "m", **body}
    with pytest.raises(ValidationError):
        check_request(path, sent)

    assert site.send("POST", path, sent).status == 400


def check_request(path: str, body: dict[str, Any]) -> None:
    """Check that a body is what the document asks for."""
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    whole = {**content["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(body)


@pytest.mark.parametrize(("path", "body"), EACH)
def test_what_is_asked_here_is_right_by_the_document(path: str, body: dict[str, Any]) -> None:
    check_request(path, {"model": "m", **body})
