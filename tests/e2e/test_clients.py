from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

COUNT = "Count from 1 to 3, one number per line"


@pytest.fixture(scope="module")
def messages(address: str) -> Iterator[anthropic.resources.Messages]:
    """The Messages API through Anthropic's own client."""
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client.messages


@pytest.fixture(scope="module")
def completions(address: str) -> Iterator[openai.resources.chat.Completions]:
    """Chat Completions through OpenAI's own client."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client.chat.completions


def messages_settings(row: Any) -> dict[str, Any]:
    return {
        "model": "demo-model",
        "max_tokens": row.max_tokens or 200,
        "messages": [{"role": "user", "content": row.prompt}],
        "stop_sequences": [row.stop] if row.stop is not None else [],
        "thinking": {"type": "disabled"},
    }


def chat_settings(row: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "model": "demo-model",
        "messages": [{"role": "user", "content": row.prompt}],
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
    }
    if row.stop is not None:
        settings["stop"] = row.stop
    if row.max_tokens is not None:
        settings["max_tokens"] = row.max_tokens
    return settings


STOP_REASONS = {"stop_string": "stop_sequence", "eos": "end_turn", "max_tokens": "max_tokens"}
FINISH_REASONS = {"stop_string": "stop", "eos": "stop", "max_tokens": "length"}


def test_messages_answers_each_row(messages: anthropic.resources.Messages, row: Any) -> None:
    answer = messages.create(**messages_settings(row))
    assert [block.type for block in answer.content] == ["text"]
    assert answer.content[0].text == row.text
    assert answer.stop_reason == STOP_REASONS[row.kind]
    assert answer.stop_sequence == row.value
    if row.max_tokens is not None:
        assert answer.usage.output_tokens == row.max_tokens


def test_messages_streams_each_row(messages: anthropic.resources.Messages, row: Any) -> None:
    with messages.stream(**messages_settings(row)) as stream:
        deltas = list(stream.text_stream)
        answer = stream.get_final_message()
    assert "".join(deltas) == row.text
    assert (answer.stop_reason, answer.stop_sequence) == (STOP_REASONS[row.kind], row.value)


def test_chat_completions_answers_each_row(
    completions: openai.resources.chat.Completions, row: Any
) -> None:
    answer = completions.create(**chat_settings(row))
    choice = answer.choices[0]
    assert choice.message.content == row.text
    assert choice.finish_reason == FINISH_REASONS[row.kind]
    assert choice.model_extra is not None
    assert choice.model_extra["matched_stop"] == row.value
    if row.max_tokens is not None:
        assert answer.usage is not None
        assert answer.usage.completion_tokens == row.max_tokens


def test_chat_completions_streams_each_row(
    completions: openai.resources.chat.Completions, row: Any
) -> None:
    text: list[str] = []
    endings: list[Any] = []
    for chunk in completions.create(**chat_settings(row), stream=True):
        for choice in chunk.choices:
            text.append(choice.delta.content or "")
            if choice.finish_reason is not None:
                assert choice.model_extra is not None
                endings.append((choice.finish_reason, choice.model_extra["matched_stop"]))
    assert "".join(text) == row.text
    assert endings == [(FINISH_REASONS[row.kind], row.value)]


def test_messages_thinks_first_on_request(messages: anthropic.resources.Messages) -> None:
    answer = messages.create(
        model="demo-model",
        max_tokens=1100,
        messages=[{"role": "user", "content": COUNT}],
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert answer.content[0].thinking.strip() != ""
    assert answer.content[1].text == "1\n2\n3"


def test_chat_completions_keeps_thinking_out_of_the_content(
    completions: openai.resources.chat.Completions,
) -> None:
    answer = completions.create(
        model="demo-model",
        messages=[{"role": "user", "content": COUNT}],
        max_tokens=600,
        extra_body={"chat_template_kwargs": {"enable_thinking": True}},
    )
    message = answer.choices[0].message
    assert message.content == "1\n2\n3"
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"].strip() != ""


def test_the_loaded_model_is_listed(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["demo-model"]


def test_a_bad_stop_is_refused_with_its_field_and_the_next_request_is_answered(
    messages: anthropic.resources.Messages,
    completions: openai.resources.chat.Completions,
) -> None:
    turn: Any = [{"role": "user", "content": COUNT}]
    with pytest.raises(anthropic.BadRequestError, match=r"stop_sequences"):
        messages.create(model="m", max_tokens=9, messages=turn, stop_sequences=[1])  # type: ignore[list-item]
    with pytest.raises(openai.BadRequestError, match="stop"):
        completions.create(model="m", messages=turn, stop=[1])  # type: ignore[list-item]
    answer = messages.create(model="m", max_tokens=50, messages=turn)
    assert answer.stop_reason == "end_turn"
