"""The acceptance tests with the vendors' own clients, streamed and whole, on the demo model."""

from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

COUNT = "Count from 1 to 10, one number per line"


@dataclass(frozen=True)
class Row:
    prompt: str
    text: str
    stop: str | None = None
    max_tokens: int = 200
    kind: str = "stop_string"


ROWS = {
    "alphabet": Row(
        "Output the whole alphabet from A to Z, without spaces, then immediately output END",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "END",
    ),
    "never": Row(
        "List letters A through F, separated by spaces.", "A B C D E F", "STOP", kind="eos"
    ),
    "digit": Row(COUNT, "1\n2\n3\n4\n5\n", "6"),
    "limit": Row(COUNT, "1\n2\n3", None, 5, "max_tokens"),
}


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest) -> Row:
    return ROWS[request.param]


@pytest.fixture
def messages(anthropic_client: anthropic.Anthropic) -> anthropic.resources.Messages:
    return anthropic_client.messages


@pytest.fixture
def chat(openai_client: openai.OpenAI) -> openai.resources.chat.Completions:
    return openai_client.chat.completions


def as_message(row: Row) -> dict[str, Any]:
    return {
        "model": "claude-opus-local",
        "max_tokens": row.max_tokens,
        "messages": [{"role": "user", "content": row.prompt}],
        "stop_sequences": [row.stop] if row.stop else [],
    }


def as_chat(row: Row) -> dict[str, Any]:
    return {
        "model": "gpt-5",
        "max_completion_tokens": row.max_tokens,
        "messages": [{"role": "user", "content": row.prompt}],
        "stop": row.stop,
    }


STOP_REASONS = {"stop_string": "stop_sequence", "eos": "end_turn", "max_tokens": "max_tokens"}
FINISH_REASONS = {"stop_string": "stop", "eos": "stop", "max_tokens": "length"}


def check_message(message: Any, row: Row) -> None:
    assert [block.type for block in message.content] == ["text"]
    assert message.content[0].text == row.text
    assert message.stop_reason == STOP_REASONS[row.kind]
    assert message.stop_sequence == (row.stop if row.kind == "stop_string" else None)
    assert message.model == "demo-model"
    if row.kind == "max_tokens":
        assert message.usage.output_tokens == row.max_tokens


def check_choice(choice: Any, text: str, row: Row) -> None:
    assert text == row.text
    assert choice.finish_reason == FINISH_REASONS[row.kind]
    matched = row.stop if row.kind == "stop_string" else None
    assert (choice.matched_stop, choice.stop_reason) == (matched, matched)


def test_a_message_ends_as_expected(messages: anthropic.resources.Messages, row: Row) -> None:
    check_message(messages.create(**as_message(row)), row)


def test_a_streamed_message_ends_as_expected(
    messages: anthropic.resources.Messages, row: Row
) -> None:
    with messages.stream(**as_message(row)) as stream:
        pieces = list(stream.text_stream)
        check_message(stream.get_final_message(), row)

    assert "".join(pieces) == row.text
    # A reader that is slow for a moment gets the rest of a short answer as one piece.
    assert len(pieces) > 1 or len(row.text) < 20


def test_a_completion_ends_as_expected(chat: openai.resources.chat.Completions, row: Row) -> None:
    answer = chat.create(**as_chat(row))

    check_choice(answer.choices[0], answer.choices[0].message.content or "", row)
    assert answer.model == "demo-model"
    assert answer.usage is not None
    if row.kind == "max_tokens":
        assert answer.usage.completion_tokens == row.max_tokens


def test_a_streamed_completion_ends_as_expected(
    chat: openai.resources.chat.Completions, row: Row
) -> None:
    chunks = list(chat.create(**as_chat(row), stream=True, stream_options={"include_usage": True}))
    *deltas, end, usage = chunks

    text = "".join(chunk.choices[0].delta.content or "" for chunk in deltas)
    check_choice(end.choices[0], text, row)
    assert all(chunk.choices[0].finish_reason is None for chunk in deltas)
    assert all(chunk.usage is None for chunk in [*deltas, end])
    assert usage.choices == []
    assert usage.usage.completion_tokens > 0


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_enabled_thinking_comes_first_in_a_separate_block(
    messages: anthropic.resources.Messages, streamed: bool
) -> None:
    wanted = as_message(ROWS["alphabet"]) | {
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    if streamed:
        with messages.stream(**wanted) as stream:
            message = stream.get_final_message()
    else:
        message = messages.create(**wanted)

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking
    assert message.usage.output_tokens_details.thinking_tokens > 0
    assert "<think>" not in message.content[1].text


def test_both_vendors_clients_list_the_models(
    anthropic_client: anthropic.Anthropic, openai_client: openai.OpenAI
) -> None:
    (one,) = anthropic_client.models.list()
    (two,) = openai_client.models.list()
    assert anthropic_client.models.retrieve("demo-model").display_name == one.display_name
    assert openai_client.models.retrieve("demo-model").owned_by == two.owned_by
    assert one.max_input_tokens
    assert one.id == two.id == "demo-model"
