"""Tools from call to answer through the vendors' own clients, on the demo model."""

import json
from typing import Any

import pytest

QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
DESCRIPTION = "Get the weather of a city"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@STREAMED
def test_a_message_calls_a_tool_and_answers_from_its_result(
    anthropic_client: Any, is_streamed: bool
) -> None:
    wanted: dict[str, Any] = {
        "model": "claude-opus-local",
        "max_tokens": 200,
        "tools": [{"name": "get_weather", "description": DESCRIPTION, "input_schema": SCHEMA}],
    }

    def ask(*turns: Any) -> Any:
        if not is_streamed:
            return anthropic_client.messages.create(messages=turns, **wanted)
        with anthropic_client.messages.stream(messages=turns, **wanted) as stream:
            return stream.get_final_message()

    called = ask(QUESTION)
    call = called.content[-1]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain"}
    answered = ask(
        QUESTION,
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": [result]},
    )

    assert called.stop_reason == "tool_use"
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
    assert answered.stop_reason == "end_turn"
    assert "Rain" in answered.content[0].text


@STREAMED
def test_a_completion_calls_a_tool_and_answers_from_its_result(
    openai_client: Any, is_streamed: bool
) -> None:
    function = {"name": "get_weather", "description": DESCRIPTION, "parameters": SCHEMA}
    wanted: dict[str, Any] = {
        "model": "gpt-local",
        "tools": [{"type": "function", "function": function}],
    }

    def ask(*turns: Any) -> Any:
        if not is_streamed:
            return openai_client.chat.completions.create(messages=turns, **wanted).choices[0]
        with openai_client.chat.completions.stream(messages=turns, **wanted) as stream:
            return stream.get_final_completion().choices[0]

    called = ask(QUESTION)
    (call,) = called.message.tool_calls
    answered = ask(
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "Rain"},
    )

    assert called.finish_reason == "tool_calls"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    assert answered.finish_reason == "stop"
    assert "Rain" in answered.message.content
