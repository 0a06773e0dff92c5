"""Conversations become the turns that the model reads, in each vendor's spelling."""

from typing import Any

import pytest

from engine.values.request import Message, ToolCall
from tests.api.dialects.asking import request, turns

USER = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    ("api", "content"),
    [
        ("messages", "Hi"),
        ("messages", [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]),
        ("chat", "Hi"),
        ("chat", [{"type": "text", "text": "Hi"}]),
        ("responses", "Hi"),
        ("responses", [{"type": "input_text", "text": "Hi"}]),
    ],
)
def test_a_text_and_its_parts_are_the_same_turn(api: str, content: Any) -> None:
    turn = {"role": "user", "content": content}

    assert turns(api, turn) == (Message("user", "Hi"),)
    if api == "responses":
        more = {"type": "message", "id": "msg_client", "status": "completed"}
        assert turns(api, turn | more) == request(api).messages == (Message("user", "Hi"),)


def test_the_system_of_messages_may_be_a_string_or_blocks_or_a_turn_anywhere() -> None:
    blocks = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief"}]

    assert turns("messages", USER, system="Be brief")[0] == Message("system", "Be brief")
    assert turns("messages", USER, system=blocks)[0] == Message("system", "Be\n\nbrief")
    assert turns("messages", USER, {"role": "system", "content": "Be brief"}) == (
        Message("user", "?"),
        Message("system", "Be brief"),
    )
    assert request("ollama_generate", system="Be brief.").messages == (
        Message("system", "Be brief."),
        Message("user", "Hi"),
    )


def test_a_prefill_keeps_every_character() -> None:
    blocks = [{"type": "text", "text": " {\n"}, {"type": "text", "text": '"a": '}]
    found = turns("messages", USER, {"role": "assistant", "content": blocks})

    assert found[-1] == Message("assistant", ' {\n"a": ')


def test_calls_thinking_and_results_of_messages_become_separate_turns() -> None:
    found = turns(
        "messages",
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look it up.", "signature": "unsigned"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "A moment."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bø"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain"},
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
    )
    call = ToolCall("toolu_1", "weather", '{"city": "Bø"}')

    assert found[1:] == (
        Message("assistant", "A moment.", thinking="Look it up.", tool_calls=(call,)),
        Message("tool", "Rain", tool_call_id="toolu_1", name="weather"),
        Message("user", "And tomorrow?"),
    )


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {"content": []}, {}])
def test_an_answer_of_chat_may_be_calls_alone(content: dict[str, Any]) -> None:
    function = {"name": "weather", "arguments": '{"city":"Bø"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    found = turns(
        "chat",
        USER,
        {"role": "assistant", "tool_calls": [call], **content},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
    )

    assert found[1:] == (
        Message("assistant", "", tool_calls=(ToolCall("call_1", "weather", '{"city":"Bø"}'),)),
        Message("tool", "Rain", tool_call_id="call_1", name="weather"),
    )


def test_the_reasoning_of_an_earlier_answer_stays_separate() -> None:
    earlier = {"role": "assistant", "content": "4", "reasoning_content": "Hm"}

    assert turns("chat", earlier) == (Message("assistant", "4", thinking="Hm"),)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": "no such city", "is_error": True}, "Error: no such city"),
    ],
    ids=["absent", "blocks", "error"],
)
def test_a_result_is_read_in_every_form(fields: dict[str, Any], text: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", **fields}
    [turn] = turns("messages", {"role": "user", "content": [block]})

    assert turn.content == text


def test_the_results_of_ollama_are_assigned_to_the_calls_before_them() -> None:
    calls = [
        {"function": {"name": "one", "arguments": {"a": 1}}},
        {"id": "x", "function": {"name": "two", "arguments": {}}},
    ]
    found = turns(
        "ollama_chat",
        USER,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_name": "two", "content": "2"},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "?"},
    )
    first, second = found[1].tool_calls

    assert (first.name, first.arguments, second.id) == ("one", '{"a": 1}', "x")
    assert found[2:] == (
        Message("tool", "2", tool_call_id="x", name="two"),
        Message("tool", "1", tool_call_id=first.id, name="one"),
        Message("tool", "?"),
    )


# -- the items of Responses --------------------------------------------------------------------


def test_an_answer_is_put_together_from_its_items() -> None:
    said = {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "output_text", "text": "I ", "annotations": [], "logprobs": []},
            {"type": "output_text", "text": "look."},
        ],
    }
    calls = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": f"f{n}",
         "arguments": "{}", "status": "completed"}
        for n in (1, 2)
    ]  # fmt: skip
    results = [
        {"type": "function_call_output", "call_id": f"call_{n}", "output": output}
        for n, output in ((1, "Rain"), (2, [{"type": "input_text", "text": "Sun"}]))
    ]
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}

    assert turns("responses", USER, thought, said, *calls, *results) == (
        Message("user", "?"),
        Message(
            "assistant",
            "I look.",
            tool_calls=(ToolCall("call_1", "f1", "{}"), ToolCall("call_2", "f2", "{}")),
        ),
        Message("tool", "Rain", tool_call_id="call_1", name="f1"),
        Message("tool", "Sun", tool_call_id="call_2", name="f2"),
    )
