"""Responses and Completions through OpenAI's own client, on the demo model."""

import json
from typing import Any

import openai
import pytest

COUNT = "Count from 1 to 10, one number per line"
WEATHER = "What is the weather in Paris?"
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def answered(openai_client: openai.OpenAI, is_streamed: bool, **wanted: Any) -> Any:
    if not is_streamed:
        return openai_client.responses.create(model="gpt-local", **wanted)
    with openai_client.responses.stream(model="gpt-local", **wanted) as stream:
        return stream.get_final_response()


@STREAMED
def test_a_response_ends_at_its_stop(openai_client: openai.OpenAI, is_streamed: bool) -> None:
    response = answered(openai_client, is_streamed, input=COUNT, extra_body={"stop": "6"})

    assert response.output_text == "1\n2\n3\n4\n5\n"
    assert response.status == "completed"
    assert response.fullstop["stop"]["value"] == "6"
    assert response.model == "demo-model"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@STREAMED
def test_reasoning_is_a_separate_item(openai_client: openai.OpenAI, is_streamed: bool) -> None:
    response = answered(
        openai_client,
        is_streamed,
        input=COUNT,
        reasoning={"effort": "high"},
        max_output_tokens=2000,
        extra_body={"stop": "6"},
    )
    reasoning, message = response.output

    assert (reasoning.type, message.type) == ("reasoning", "message")
    assert reasoning.content[0].text
    assert response.usage.output_tokens_details.reasoning_tokens > 0


@STREAMED
def test_a_response_calls_a_tool_and_answers_from_its_result(
    openai_client: openai.OpenAI, is_streamed: bool
) -> None:
    history: list[Any] = [{"role": "user", "content": WEATHER}]
    called = answered(openai_client, is_streamed, input=history, tools=[TOOL])
    call = called.output[-1]
    history += [item.model_dump(exclude_none=True) for item in called.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "Rain"})
    said = answered(openai_client, is_streamed, input=history, tools=[TOOL])

    assert (call.type, call.name, json.loads(call.arguments)) == (
        "function_call",
        "get_weather",
        {"city": "Paris"},
    )
    assert "Rain" in said.output_text


# -- completions ------------------------------------------------------------------------------


@pytest.fixture
def raw() -> str:
    """The prompt that the demo model's template makes from a question, with thinking off."""
    answer = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    return f"<|im_start|>user\n{COUNT}<|im_end|>\n{answer}"


def test_usage_counts_each_prompt_once_and_all_of_its_choices(
    openai_client: openai.OpenAI, raw: str
) -> None:
    prompts = [raw, "The alphabet is A B C"]
    one, other, both = (
        openai_client.completions.create(
            model="m", prompt=prompt, n=n, max_tokens=3, extra_body={"ignore_eos": True}
        ).usage
        for prompt, n in ((prompts[0], 1), (prompts[1], 1), (prompts, 2))
    )

    assert both.prompt_tokens == one.prompt_tokens + other.prompt_tokens
    assert both.completion_tokens == 4 * 3
    assert both.total_tokens == both.prompt_tokens + both.completion_tokens
