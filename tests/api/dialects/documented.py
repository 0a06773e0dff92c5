"""Requests that produce every kind of answer, and the checks against the OpenAPI document."""

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from api.server.openapi import document
from api.server.routes import ROUTES, TABLE

DOCUMENT = document(TABLE)

COUNT = "Count from 1 to 3, one number per line"
TURNS = [{"role": "user", "content": COUNT}]
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
REPORT = {"fullstop": {"report": True}}

# For each route: requests that produce every kind of answer.
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
        {
            "messages": TURNS,
            "max_tokens": 60,
            "functions": [WEATHER],
            "function_call": {"name": "get_weather"},
        },
        {
            "messages": TURNS,
            "max_tokens": 60,
            "tools": [{"type": "custom", "custom": {"name": "run"}}],
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
        {
            "input": COUNT,
            "max_output_tokens": 60,
            "tools": [
                {
                    "type": "namespace",
                    "name": "here",
                    "tools": [{"type": "function", **WEATHER}, {"type": "custom", "name": "run"}],
                }
            ],
            "tool_choice": {"type": "custom", "name": "run"},
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
    "/v1/chat/completions/render": [
        {"messages": TURNS, "max_tokens": 20, "stop": "2", "temperature": 0.5},
        {"messages": [*TURNS, {"role": "assistant", "content": "1", "reasoning": "Hm"}, *TURNS]},
    ],
    "/apply-template": [{"messages": TURNS, "tools": [{"type": "function", "function": WEATHER}]}],
    "/v1/embeddings": [{"input": "Hi"}, {"input": ["Hi"], "encoding_format": "base64"}],
    "/api/embed": [{"input": ["Hi", "you"]}],
    "/api/embeddings": [{"prompt": "Hi"}],
    "/detokenize": [{"tokens": [5, 6]}],
    "/api/pull": [{"model": "demo-model", "stream": False}],
    "/api/show": [{"model": "demo-model"}],
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


WITH_BODIES = [route.path for route in ROUTES if route.request is not None]
EACH = [
    pytest.param(path, body, id=f"{path}-{number}")
    for path, bodies in ASKED.items()
    for number, body in enumerate(bodies)
]


def check_request(path: str, body: dict[str, Any]) -> None:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    whole = {**content["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(body)
