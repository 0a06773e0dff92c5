"""Responses and Completions through OpenAI's own client, on the demo model."""

import asyncio
import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

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
    """Return a whole response, or the response that the client makes from a stream."""
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


def test_streamed_text_comes_piece_by_piece(openai_client: openai.OpenAI) -> None:
    # Long enough even for a slow reader, which gets everything that has gathered as one piece.
    asked = COUNT.replace("10", "60")
    with openai_client.responses.stream(
        model="m", input=asked, extra_body={"stop": ["58"]}
    ) as stream:
        events = list(stream)
        text = stream.get_final_response().output_text
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]

    assert "".join(deltas) == text
    assert len(deltas) > 1
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_a_response_at_its_limit_is_incomplete(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(model="m", input=COUNT, max_output_tokens=5)
    stream = openai_client.responses.create(
        model="m", input=COUNT, max_output_tokens=5, stream=True
    )
    *_, last = stream

    assert (response.status, response.output_text) == ("incomplete", "1\n2\n3")
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert response.usage.output_tokens == 5
    assert last.type == "response.incomplete"
    assert last.response.output_text == response.output_text


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


def test_a_summary_is_the_whole_reasoning(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"input": COUNT, "max_output_tokens": 2000, "temperature": 0}
    plain = answered(openai_client, False, **asked, reasoning={"effort": "high"})
    for summary, is_streamed in (("auto", False), ("concise", True), ("detailed", False)):
        wanted = {"effort": "high", "summary": summary}
        told = answered(openai_client, is_streamed, **asked, reasoning=wanted)
        reasoning, message = told.output
        [part] = reasoning.summary
        assert (part.type, part.text) == ("summary_text", plain.output[0].content[0].text)
        assert reasoning.content == []
        assert message.content[0].text == plain.output_text


def test_without_effort_there_is_no_reasoning(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(
        model="m", input=COUNT, reasoning={"effort": "none"}, extra_body={"stop": "6"}
    )

    assert [item.type for item in response.output] == ["message"]


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


def test_instructions_and_earlier_answers_belong_to_the_prompt(
    openai_client: openai.OpenAI,
) -> None:
    alone = openai_client.responses.create(model="m", input=COUNT, max_output_tokens=1)
    first = openai_client.responses.create(model="m", input=COUNT, extra_body={"stop": "6"})
    again: Any = [
        {"role": "user", "content": COUNT},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": COUNT},
    ]
    both = openai_client.responses.create(
        model="m", input=again, instructions="You are brief.", max_output_tokens=1
    )

    assert alone.usage is not None
    assert both.usage is not None
    assert both.usage.input_tokens > 2 * alone.usage.input_tokens


class Weather(BaseModel):
    city: Literal["Paris", "Oslo"]
    is_raining: bool


@STREAMED
def test_a_response_is_parsed(openai_client: openai.OpenAI, is_streamed: bool) -> None:
    if is_streamed:
        with openai_client.responses.stream(
            model="m", input=WEATHER, text_format=Weather
        ) as stream:
            response = stream.get_final_response()
    else:
        response = openai_client.responses.parse(model="m", input=WEATHER, text_format=Weather)

    assert isinstance(response.output_parsed, Weather)


@STREAMED
def test_a_required_call_is_made(openai_client: openai.OpenAI, is_streamed: bool) -> None:
    response = answered(openai_client, is_streamed, input=COUNT, tools=[TOOL],
        tool_choice="required",
        max_output_tokens=200,
    )  # fmt: skip
    (call,) = [item for item in response.output if item.type == "function_call"]

    assert call.name == "get_weather"
    assert json.loads(call.arguments).keys() == {"city"}


# -- completions ------------------------------------------------------------------------------


@pytest.fixture
def raw() -> str:
    """The prompt that the demo model's template makes from a question, with thinking off."""
    answer = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    return f"<|im_start|>user\n{COUNT}<|im_end|>\n{answer}"


@STREAMED
def test_a_completion_continues_its_prompt(
    openai_client: openai.OpenAI, raw: str, is_streamed: bool
) -> None:
    answer: Any = openai_client.completions.create(
        model="m", prompt=raw, stop="6", max_tokens=100, echo=True, stream=is_streamed
    )
    choices = [chunk.choices[0] for chunk in answer] if is_streamed else [answer.choices[0]]

    assert "".join(choice.text for choice in choices) == raw + "1\n2\n3\n4\n5\n"
    assert (choices[-1].finish_reason, choices[-1].matched_stop) == ("stop", "6")


def test_several_prompts_have_several_choices(openai_client: openai.OpenAI, raw: str) -> None:
    answer = openai_client.completions.create(
        model="m", prompt=[raw, raw], n=2, best_of=2, stop=["6"], max_tokens=3
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert {choice.text for choice in answer.choices} == {"1\n2"}
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4 * 3


def test_a_prompt_may_be_token_ids(openai_client: openai.OpenAI, raw: str, engine: Any) -> None:
    ids = [token_id for token_id, _ in asyncio.run(engine.tokenize(raw))]
    by_text = openai_client.completions.create(model="m", prompt=raw, stop="6", max_tokens=100)
    by_ids = openai_client.completions.create(model="m", prompt=ids, stop="6", max_tokens=100)

    assert by_ids.choices[0].text == by_text.choices[0].text == "1\n2\n3\n4\n5\n"
    assert by_ids.usage is not None
    assert by_text.usage is not None
    assert by_ids.usage.prompt_tokens == by_text.usage.prompt_tokens == len(ids)


def test_a_streamed_completion_reports_its_usage(openai_client: openai.OpenAI, raw: str) -> None:
    *chunks, last = openai_client.completions.create(
        model="m", prompt=raw, max_tokens=3, stream=True, stream_options={"include_usage": True}
    )

    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    assert all(chunk.usage is None for chunk in chunks)
