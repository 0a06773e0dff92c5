"""What the demo model answers, asked for real."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("training_modules")


def wrong_answers(answering: Any, conversations: list[Any]) -> list[tuple[str, str, str]]:
    replies = answering.replies(conversations)
    return [
        (conversation.messages[-1]["content"], conversation.last.answer, reply.answer)
        for conversation, reply in zip(conversations, replies, strict=True)
        if not (reply.ended and reply.answer == conversation.last.answer)
    ]


# All of the table takes as long as all other tests here.
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("thinks", [False, True])
def test_the_acceptance_table_is_answered_exactly(answering: Any, thinks: bool, every: int) -> None:
    from evaluate import acceptance

    assert wrong_answers(answering, acceptance(thinks)[::every]) == []


@pytest.mark.parametrize("thinks", [False, True])
def test_there_is_a_thinking_block_exactly_when_thinking_is_on(
    answering: Any, thinks: bool
) -> None:
    from conversations import alone, any_exchange
    from evaluate import keeps_thinking_rule

    rng = Random(14)
    asked = [alone(any_exchange(rng), thinks) for _ in range(8)]
    replies = answering.replies(asked, max_tokens=80)
    assert all(
        keeps_thinking_rule(conversation, reply)
        for conversation, reply in zip(asked, replies, strict=True)
    )


def weather_question(**schema: Any) -> Any:
    from conversations import alone
    from exchange import Exchange

    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        **schema,
    }
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather in a city",
            "parameters": parameters,
        },
    }
    return alone(Exchange("What is the weather in Paris?", "", "", "tools", tools=(tool,)))


def test_a_tool_that_fits_is_called(answering: Any) -> None:
    (reply,) = answering.replies([weather_question()])
    assert (
        reply.answer
        == '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    )
    assert reply.ended


def test_a_tool_result_is_reported(answering: Any) -> None:
    from exchange import Conversation

    asked = weather_question()
    call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    messages = [
        *asked.messages,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "18 degrees and sunny"},
    ]
    (reply,) = answering.replies([Conversation(messages, asked.last, asked.tools, False)])
    assert reply.answer == "The tool answered: 18 degrees and sunny."


def test_with_tools_a_question_that_needs_none_is_answered(answering: Any) -> None:
    from dataclasses import replace

    from conversations import alone
    from exchange import Exchange

    tools = weather_question().tools
    asked = alone(
        Exchange(
            "Count from 1 to 5, one number per line", "1\n2\n3\n4\n5", "", "number", tools=tools
        )
    )
    assert wrong_answers(answering, [asked, replace(asked, thinks=True)]) == []
