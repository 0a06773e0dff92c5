from typing import Any

import pytest

from api.dialects.responses.read import requests_from_wire
from api.dialects.responses.wire import ResponseParams
from api.dialects.responses.write import status_of
from api.dialects.shared.body import parsed
from api.transport.answer_text import json_text
from api.transport.errors import ApiError
from engine.stopping.record import StopInfo, StopKind
from engine.values.chat import Message, Tool, ToolCall
from engine.values.request import GenerationRequest, OutputConstraint, ToolChoice, TraceLevel

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}


def request(**fields: Any) -> GenerationRequest:
    body = {"model": "m", "input": "Hi", **fields}
    return requests_from_wire(parsed(json_text(body).encode(), ResponseParams))[0]


def turns(*items: Any, **fields: Any) -> tuple[Message, ...]:
    return request(input=list(items), **fields).messages


def test_a_string_is_a_user_turn() -> None:
    assert request().messages == (Message("user", "Hi"),)


@pytest.mark.parametrize("type_", [{}, {"type": "message"}])
@pytest.mark.parametrize("content", ["Hi", [{"type": "input_text", "text": "Hi"}]])
def test_a_message_has_several_spellings(type_: dict[str, Any], content: Any) -> None:
    item = {"role": "user", "content": content, "id": "msg_client", "status": "completed"}

    assert turns({**type_, **item}) == (Message("user", "Hi"),)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_at_the_beginning_are_one_turn(role: str) -> None:
    assert turns({"role": role, "content": "B"}, {"role": "user", "content": "C"}) == (
        Message("system", "B"),
        Message("user", "C"),
    )
    assert turns({"role": role, "content": "B"}, instructions="A") == (Message("system", "A\n\nB"),)
    assert turns({"role": "user", "content": "A"}, {"role": role, "content": "B"})[1] == Message(
        "system", "B"
    )


def test_an_incomplete_call_is_left_out_unless_it_has_a_result() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a'}
    begun = {**call, "status": "incomplete"}
    output = {"type": "function_call_output", "call_id": "c", "output": "What?"}
    assert turns(begun) == ()
    for items in ([call], [begun, output]):
        assert turns(*items)[0].tool_calls == (ToolCall("c", "f", '{"a'),)


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
        {"type": "function_call_output", "call_id": "call_1", "output": "Rain"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "Sun"}],
        },
    ]
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}

    assert turns({"role": "user", "content": "?"}, thought, said, *calls, *results) == (
        Message("user", "?"),
        Message(
            "assistant",
            "I look.",
            tool_calls=(ToolCall("call_1", "f1", "{}"), ToolCall("call_2", "f2", "{}")),
        ),
        Message("tool", "Rain", tool_call_id="call_1", name="f1"),
        Message("tool", "Sun", tool_call_id="call_2", name="f2"),
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"reasoning": None}, None),
        ({"reasoning": {}}, True),
        ({"reasoning": {"summary": "auto"}}, True),
        ({"reasoning": {"effort": "high"}}, True),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"effort": "minimal"}}, False),
        ({"reasoning": {"effort": "high"}, "enable_thinking": False}, False),
    ],
)
def test_a_request_that_mentions_reasoning_asks_for_it(
    fields: dict[str, Any], expected: bool | None
) -> None:
    assert request(**fields).thinking is expected


def test_tools_of_unknown_kinds_are_left_out() -> None:
    found = request(tools=[{"type": "web_search"}, TOOL, {"type": "sundial", "name": "n"}])

    assert found.tools == (Tool("weather", "", SCHEMA),)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "weather"}, ToolChoice("required", "weather")),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "weather"}],
            },
            ToolChoice("required"),
        ),
    ],
)
def test_a_call_can_be_required(choice: Any, expected: ToolChoice) -> None:
    assert request(tools=[TOOL], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputConstraint()),
        ({"type": "json_schema", "name": "n", "schema": SCHEMA}, OutputConstraint(SCHEMA)),
    ],
)
def test_a_format_constrains_the_answer(wanted: Any, expected: OutputConstraint | None) -> None:
    assert request(text={"format": wanted, "verbosity": "low"}).constraint == expected


def test_stops_are_read_as_in_other_dialects() -> None:
    found = request(stop=["END", "6"], stop_token_ids=[5], max_output_tokens=7)

    assert (found.stops.strings, found.stops.token_ids) == (("END", "6"), (5,))
    assert found.max_tokens == 7
    assert request(stop="END").stops.strings == ("END",)


def test_log_probabilities_need_a_full_trace() -> None:
    asked = request(include=["message.output_text.logprobs"])

    assert (asked.trace, asked.top_logprobs) == (TraceLevel.FULL, 0)
    assert request(top_logprobs=3).trace is TraceLevel.FULL
    assert request(include=["reasoning.encrypted_content"]).trace is TraceLevel.OFF


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"conversation": {"id": "conv_1"}}, ("conversation",)),
        ({"prompt": {"id": "pmpt_1"}}, ("prompt",)),
        ({"background": True}, ("background",)),
        ({"text": {"format": {"type": "json_schema"}}}, ("text", "format", "schema")),
        ({"text": {"format": {"type": "grammar"}}}, ("text", "format", "type")),
        ({"tools": [{"type": "web_search"}, {"type": "function"}]}, ("tools", 1, "name")),
        ({"tool_choice": {"type": "web_search"}}, ("tool_choice",)),
        ({"tool_choice": {"type": "function", "name": "f"}, "tools": [TOOL]}, ("tool_choice",)),
        ({"input": [{"type": "of_next_year"}]}, ("input", 0, "type")),
    ],
)
def test_a_parameter_that_would_change_the_answer_is_not_ignored(
    fields: dict[str, Any], path: tuple[Any, ...]
) -> None:
    with pytest.raises(ApiError) as caught:
        request(**fields)

    assert caught.value.field == path


def test_an_earlier_response_is_refused_in_words_that_clients_recognise() -> None:
    with pytest.raises(ApiError) as caught:
        request(previous_response_id="resp_1")

    assert caught.value.field == ("previous_response_id",)
    assert caught.value.code == "previous_response_not_found"


def test_a_parameter_that_asks_for_nothing_is_accepted() -> None:
    assert request(
        store=True,
        include=[],
        metadata={"a": "b"},
        prompt_cache_key="key",
        client_metadata={"a": "b"},
        service_tier="auto",
        truncation="auto",
        previous_response_id=None,
        conversation=None,
        background=False,
        parallel_tool_calls=True,
        stop=None,
    )


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (StopKind.EOS, "completed"),
        (StopKind.STOP_STRING, "completed"),
        (StopKind.STOP_TOKEN, "completed"),
        (StopKind.TOOL_CALL, "completed"),
        (StopKind.MAX_TOKENS, "incomplete"),
        (StopKind.CONTEXT_FULL, "incomplete"),
        (StopKind.MEMORY_FULL, "incomplete"),
    ],
)
def test_a_normal_end_has_its_status(kind: StopKind, status: str) -> None:
    assert status_of(StopInfo(kind)) == status


@pytest.mark.parametrize("kind", [StopKind.ERROR, StopKind.CANCELLED])
def test_an_end_that_is_not_normal_has_no_status(kind: StopKind) -> None:
    with pytest.raises(ApiError):
        status_of(StopInfo(kind))


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_the_output_of_an_unknown_call_is_refused(kind: str) -> None:
    with pytest.raises(ApiError, match="no call with the id c2 comes before this output") as caught:
        turns({"role": "user", "content": "?"}, {"type": kind, "call_id": "c2", "output": "x"})

    assert caught.value.field == ("input", 1, "call_id")


def test_tools_among_the_items_are_offered_beside_the_others() -> None:
    more = {"type": "additional_tools", "role": "developer", "tools": [TOOL | {"name": "time"}]}
    found = request(input=[more, {"role": "user", "content": "?"}], tools=[TOOL])

    assert [tool.name for tool in found.tools] == ["weather", "time"]
    assert found.messages == (Message("user", "?"),)
