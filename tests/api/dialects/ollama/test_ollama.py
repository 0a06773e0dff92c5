"""The Ollama dialect: the meaning of its requests, and the content of its lines."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.dialects.ollama.wire import OllamaAnswer
from tests.api.conftest import LONG

ASK = {"model": "demo-model", "messages": [{"role": "user", "content": "Hi"}]}


def lines_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.decode().splitlines()]


def test_an_answer_is_streamed_as_lines_of_json_by_default(staged: Any) -> None:
    site = staged(step_s=0).site
    reply = site.send("POST", "/api/chat", ASK)
    lines = lines_of(reply.body)

    assert reply.headers["content-type"] == "application/x-ndjson"
    assert "".join(line["message"]["content"] for line in lines) == "Hello"
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    for line in lines:
        TypeAdapter(OllamaAnswer).validate_python(line)


def test_a_prompt_is_answered_whole_on_request(staged: Any) -> None:
    site = staged(step_s=0).site
    ask = {"model": "any", "prompt": LONG, "stream": False, "options": {"num_predict": 3}}
    answer = site.send("POST", "/api/generate", ask).json

    TypeAdapter(OllamaAnswer).validate_python(answer)
    assert (answer["model"], answer["response"]) == ("any", "word word word ")
    assert (answer["done_reason"], answer["eval_count"]) == ("length", 3)
    assert answer["total_duration"] > 0


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "load"),
        ({"keep_alive": "300 "}, "load"),
        ({"keep_alive": -1}, "load"),
        ({"keep_alive": None}, "load"),
        ({"keep_alive": 0}, "unload"),
        ({"keep_alive": "0"}, "unload"),
        ({"keep_alive": "0s"}, "unload"),
    ],
)
def test_an_empty_request_loads_or_unloads_the_model(
    site: Any, path: str, body: dict[str, Any], reason: str
) -> None:
    answer = site.send("POST", path, {"model": "demo-model", **body}).json

    assert (answer["done"], answer["done_reason"]) == (True, reason)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("keep_alive", [0, "0s"])
def test_memory_is_freed_after_an_answer_with_keep_alive_0(
    staged: Any, keep_alive: Any, is_streamed: bool
) -> None:
    stand = staged(step_s=0)
    site = stand.site
    ask = {**ASK, "stream": is_streamed}

    assert site.send("POST", "/api/chat", {**ask, "keep_alive": keep_alive}).status == 200
    assert stand.wait_until(lambda engine: engine.status.is_unloaded)
    assert site.send("GET", "/api/ps").json == {"models": []}
    assert site.send("GET", "/api/tags").json["models"]

    # The next request is answered, and keeps the model.
    answer = site.send("POST", "/api/chat", ask)
    assert b"Hel" in answer.body
    assert site.send("GET", "/api/ps").json["models"]
    assert not stand.engine.status.is_unloaded


def test_any_name_can_be_shown_unless_the_settings_are_strict(
    site: Any, serve: Callable[..., Any]
) -> None:
    strict = serve(strict=True)
    for field in ("model", "name"):
        assert (
            "completion" in site.send("POST", "/api/show", {field: "llama3.2"}).json["capabilities"]
        )
        assert strict.send("POST", "/api/show", {field: "llama3.2"}).status == 404
        assert strict.send("POST", "/api/show", {field: "demo-model"}).status == 200


def test_the_keepalives_of_a_silent_stream_are_json(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0.2, settings={"keepalive_s": 0.05})
    site = stage.site
    lines = lines_of(site.send("POST", "/api/chat", ASK).body)

    assert sum(line["message"]["content"] == "" and not line["done"] for line in lines) >= 2


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/chat", {"messages": 5}, 400),
        ("POST", "/api/generate", {"model": "m", "prompt": "x", "suffix": "y"}, 400),
        ("POST", "/api/show", {}, 400),
        ("POST", "/api/nothing", {"model": "llama"}, 404),
        ("GET", "/api/nowhere", None, 404),
        ("GET", "/api/chat", None, 405),
    ],
)
def test_every_error_is_one_string(
    site: Any, method: str, path: str, body: Any, status: int
) -> None:
    reply = site.send(method, path, body)

    assert reply.status == status
    assert reply.json.keys() == {"error"}
    assert isinstance(reply.json["error"], str)


def test_thinking_is_refused_if_the_model_cannot_think(staged: Callable[..., Any]) -> None:
    reply = staged(step_s=0).site.send("POST", "/api/chat", ASK | {"think": True})

    assert reply.status == 400
    assert reply.json["error"] == "think: scripted:latest does not support thinking"
