"""A limit of no tokens: Messages reads the prompt and says nothing, elsewhere it is refused."""

from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from tests.api.conftest import LONG
from tests.support.scripted import GO

TURNS = [{"role": "user", "content": LONG}]


def test_a_message_of_no_tokens_leaves_its_prompt_in_the_cache(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    client = anthropic.Anthropic(base_url=serve(stage.engine).url, api_key="k")
    warmed = client.messages.create(model="m", max_tokens=0, messages=TURNS)
    assert stage.wait_until_idle()
    asked = client.messages.create(model="m", max_tokens=3, messages=TURNS)

    assert warmed.content == []
    assert (warmed.stop_reason, warmed.stop_sequence) == ("max_tokens", None)
    assert (warmed.usage.input_tokens > 1, warmed.usage.output_tokens) == (True, 0)
    assert asked.usage.cache_read_input_tokens == warmed.usage.input_tokens - 1
    assert asked.content[0].text == "word word word "


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/chat/completions", {"messages": TURNS, "max_tokens": 0}, "max_tokens"),
        (
            "/v1/chat/completions",
            {"messages": TURNS, "max_completion_tokens": 0},
            "max_completion_tokens",
        ),
        ("/v1/completions", {"prompt": LONG, "max_tokens": 0}, "max_tokens"),
        ("/v1/responses", {"input": LONG, "max_output_tokens": 0}, "max_output_tokens"),
        (
            "/generate",
            {"text": f"user:{LONG}{GO}", "sampling_params": {"max_new_tokens": 0}},
            "sampling_params.max_new_tokens",
        ),
    ],
)
def test_elsewhere_the_field_is_named(
    serve: Callable[..., Any],
    staged: Callable[..., Any],
    path: str,
    body: dict[str, Any],
    field: str,
) -> None:
    reply = serve(staged(step_s=0).engine).send("POST", path, {"model": "m", **body})

    assert reply.status == 400
    assert reply.json["error"]["param"] == field


@pytest.mark.parametrize("wanted", [0, -1, -2])
def test_ollama_means_until_it_ends_by_itself(
    serve: Callable[..., Any], staged: Callable[..., Any], wanted: int
) -> None:
    ask = {
        "model": "scripted",
        "stream": False,
        "messages": [{"role": "user", "content": "Hi"}],
        "options": {"num_predict": wanted},
    }
    reply = serve(staged(step_s=0).engine).send("POST", "/api/chat", ask)

    assert reply.json["message"]["content"] == "Hello"
    assert reply.json["done_reason"] == "stop"
