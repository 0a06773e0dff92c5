"""Ollama's own Python client against the server, on the demo model."""

import json
from typing import Any

import ollama
import pytest

COUNT = "Count from 1 to 10, one number per line"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def asked(ollama_client: ollama.Client, prompt: str, *, is_streamed: bool, **options: Any) -> Any:
    """Ask in a chat; return the text and the last line."""
    wanted: dict[str, Any] = {
        "model": "llama3.2",
        "messages": [{"role": "user", "content": prompt}],
        "options": {"temperature": 0, **options},
    }
    if not is_streamed:
        answer = ollama_client.chat(**wanted)
        return answer.message.content, answer
    lines = list(ollama_client.chat(**wanted, stream=True))
    return "".join(line.message.content or "" for line in lines), lines[-1]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("prompt", "options", "text", "reason"),
    [
        (COUNT, {"stop": ["6"]}, "1\n2\n3\n4\n5\n", "stop"),
        (COUNT, {"stop": ["3\n4"]}, "1\n2\n", "stop"),
        (COUNT, {"num_predict": 5}, "1\n2\n3", "length"),
        ("Repeat exactly: A B C STOP D E F", {"stop": ["STOP"]}, "A B C ", "stop"),
    ],
    ids=["digit", "newline", "limit", "word"],
)
def test_the_answer_ends_before_the_stop(
    ollama_client: ollama.Client,
    prompt: str,
    options: dict[str, Any],
    text: str,
    reason: str,
    is_streamed: bool,
) -> None:
    found, last = asked(ollama_client, prompt, is_streamed=is_streamed, **options)

    assert (found, last.done, last.done_reason) == (text, True, reason)
    assert last.prompt_eval_count > 0
    assert last.eval_count >= 5
    assert last.total_duration >= last.eval_duration > 0


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_arguments_of_a_tool_call_are_an_object(
    ollama_client: ollama.Client, is_streamed: bool
) -> None:
    turns = [{"role": "user", "content": "What is the weather in Paris?"}]
    wanted: dict[str, Any] = {
        "model": "demo-model",
        "messages": turns,
        "tools": [WEATHER],
        "options": {"temperature": 0},
    }
    answers = (
        list(ollama_client.chat(**wanted, stream=True))
        if is_streamed
        else [ollama_client.chat(**wanted)]
    )
    [call] = [call for one in answers for call in one.message.tool_calls or []]

    assert call.function.name == "get_weather"
    assert call.function.arguments == {"city": "Paris"}
    assert answers[-1].done_reason == "stop"
    # The client itself writes the message with the result.
    said = ollama.Message(role="assistant", content="", tool_calls=[call])
    result = ollama.Message(role="tool", content="Rain", tool_name="get_weather")
    ollama_client.chat(model="demo-model", messages=[*turns, said, result], tools=[WEATHER])


def test_a_format_makes_the_answer_json(ollama_client: ollama.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["n"],
        "additionalProperties": False,
    }
    answer = ollama_client.chat(
        "demo-model", [{"role": "user", "content": "Say: 5"}], format=schema, think=False
    )

    value = json.loads(answer.message.content or "")
    assert value.keys() == {"n"}
    assert 0 <= value["n"] <= 99


def test_the_model_can_be_listed_shown_and_seen_running(
    ollama_client: ollama.Client, site: Any
) -> None:
    [listed] = ollama_client.list().models
    shown = ollama_client.show(listed.model or "")
    [running] = ollama_client.ps().models

    assert listed.model == "demo-model:latest"
    assert listed.size == site.engine.model.size_bytes
    assert set(shown.capabilities or []) == {"completion", "tools", "thinking"}
    assert running.model == listed.model
    assert (running.size_vram or 0) > 0
