"""Requests of Chat Completions become requests of the engine."""

from typing import Any

import pytest

from api.dialects.chat.read import requests_from_wire
from api.transport.errors import ApiError
from engine.errors import InvalidRequest
from engine.values.chat import Message, Tool, ToolCall
from engine.values.request import OutputConstraint, ToolChoice, TraceLevel
from tests.api.dialects.chat.asking_chat import params, request

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA, "strict": True}}


def turns(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return request(messages=list(messages)).messages


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_have_two_names(role: str) -> None:
    assert turns({"role": role, "content": "Be brief"}) == (Message("system", "Be brief"),)


def test_a_content_may_be_parts() -> None:
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]

    assert turns({"role": "user", "content": parts}) == (Message("user", "One\nTwo"),)


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {"content": []}, {}])
def test_an_answer_may_be_calls_alone(content: dict[str, Any]) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Bø"}'},
    }
    found = turns(
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "tool_calls": [call], **content},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
    )

    assert found[1:] == (
        Message("assistant", "", tool_calls=(ToolCall("call_1", "weather", '{"city":"Bø"}'),)),
        Message("tool", "Rain", tool_call_id="call_1", name="weather"),
    )


def test_the_reasoning_of_an_earlier_answer_stays_separate() -> None:
    (turn,) = turns({"role": "assistant", "content": "4", "reasoning_content": "Hm"})

    assert turn == Message("assistant", "4", thinking="Hm")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"reasoning_effort": None}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, False),
        ({"reasoning_effort": "low"}, True),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False, "reasoning_effort": "high"}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}, "enable_thinking": True}, False),
        ({"chat_template_kwargs": {"other": 1}}, None),
    ],
)
def test_thinking_has_three_switches(fields: dict[str, Any], expected: bool | None) -> None:
    assert request(**fields).thinking is expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (None, ()),
        ([], ()),
        ("END", ("END",)),
        (["END", "\n", "END"], ("END", "\n")),
        ([str(number) for number in range(64)], tuple(str(number) for number in range(64))),
    ],
    ids=["null", "none", "string", "duplicates", "64"],
)
def test_stop_is_null_a_string_or_a_list(stop: Any, expected: tuple[str, ...]) -> None:
    assert request(stop=stop).stops.strings == expected


@pytest.mark.parametrize("stop", [1, True, {"a": 1}, ""], ids=repr)
def test_a_stop_of_another_type_is_refused(stop: Any) -> None:
    with pytest.raises(ApiError) as caught:
        request(stop=stop)

    assert caught.value.field == ("stop",)


@pytest.mark.parametrize("bad", [1, None, "", "x" * 4097])
def test_a_bad_stop_is_named_by_its_index(bad: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request(stop=["END", bad])

    assert caught.value.field == "stop[1]"


def test_only_a_strict_server_refuses_more_than_four_stops() -> None:
    wanted = params(stop=["1", "2", "3", "4", "5"])

    assert len(requests_from_wire(wanted)[0].stops.strings) == 5
    with pytest.raises(ApiError) as caught:
        requests_from_wire(wanted, strict=True)
    assert caught.value.code == "array_above_max_length"


def test_more_stops_than_the_limit_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="64"):
        request(stop=[str(number) for number in range(65)])


def test_the_newer_limit_wins() -> None:
    assert request(max_tokens=5).max_tokens == 5
    assert request(max_completion_tokens=6).max_tokens == 6
    assert request(max_tokens=5, max_completion_tokens=6).max_tokens == 6
    assert request().max_tokens is None


def test_the_extra_parameters_of_open_servers_are_honoured() -> None:
    found = request(
        top_k=-1,
        min_p=0.1,
        repetition_penalty=1.1,
        seed=7,
        logit_bias={"21": -100},
        stop_token_ids=[5, 5, 6],
        include_stop_str_in_output=True,
        ignore_eos=True,
        min_tokens=3,
    )

    assert (found.sampling.top_k, found.sampling.min_p) == (0, 0.1)
    assert (found.sampling.repetition_penalty, found.sampling.seed) == (1.1, 7)
    assert found.sampling.logit_bias == ((21, -100.0),)
    assert found.stops.token_ids == (5, 6)
    assert found.stops.include_stop
    assert found.stops.ignore_eos
    assert found.stops.min_tokens == 3


def test_the_choices_of_one_seed_differ_from_each_other() -> None:
    wanted = requests_from_wire(params(n=3, seed=7))

    assert [one.sampling.seed for one in wanted] == [7, 8, 9]
    assert [one.sampling.seed for one in requests_from_wire(params(n=2, seed=-1))] == [2**64 - 1, 0]
    assert len(requests_from_wire(params(n=3))) == 3
    assert len(requests_from_wire(params())) == 1


def test_tools_are_offered_unless_the_choice_is_none() -> None:
    assert request(tools=[TOOL]).tools == (Tool("weather", "", SCHEMA),)
    assert request(tools=[TOOL], tool_choice="auto").tools
    assert request(tools=[TOOL], tool_choice="none").tools == ()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"top_logprobs": 2}, ("top_logprobs",)),
        ({"response_format": {"type": "grammar"}}, ("response_format", "type")),
        (
            {"response_format": {"type": "json_schema"}},
            ("response_format", "json_schema", "schema"),
        ),
        ({"tool_choice": "required"}, ("tool_choice",)),
        ({"tool_choice": "perhaps"}, ("tool_choice",)),
        ({"tool_choice": 5}, ("tool_choice",)),
        (
            {"tool_choice": {"type": "custom", "custom": {}}, "tools": [TOOL]},
            ("tool_choice", "custom", "name"),
        ),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": [TOOL]},
            ("tool_choice",),
        ),
        (
            {"tool_choice": {"type": "function", "function": {}}, "tools": [TOOL]},
            ("tool_choice", "function", "name"),
        ),
        ({"tool_choice": {"type": "allowed_tools"}, "tools": [TOOL]}, ("tool_choice", "tools")),
        ({"functions": [{"name": "f"}], "tools": [TOOL]}, ("functions",)),
        ({"modalities": ["text", "audio"]}, ("modalities",)),
        ({"logit_bias": {"END": 1}}, ("logit_bias", "END")),
    ],
)
def test_a_parameter_that_would_change_the_answer_is_not_ignored(
    fields: dict[str, Any], path: tuple[str, ...]
) -> None:
    with pytest.raises(ApiError) as caught:
        request(**fields)

    assert caught.value.field == path


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "weather"}}, ToolChoice("required", "weather")),
    ],
)
def test_a_call_can_be_required(choice: Any, expected: ToolChoice) -> None:
    assert request(tools=[TOOL], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_tools_can_be_limited_to_a_list(mode: Any) -> None:
    listed = [{"type": "function", "function": {"name": "weather"}}]
    other = {"type": "function", "function": {"name": "time"}}
    found = request(
        tools=[TOOL, other],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": listed}},
    )

    assert [tool.name for tool in found.tools] == ["weather"]
    assert found.tool_choice == ToolChoice(mode)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputConstraint()),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            OutputConstraint(SCHEMA),
        ),
    ],
)
def test_a_format_constrains_the_answer(wanted: Any, expected: OutputConstraint | None) -> None:
    assert request(response_format=wanted).constraint == expected


def test_log_probabilities_need_a_full_trace() -> None:
    found = request(logprobs=True, top_logprobs=3)

    assert (found.trace, found.top_logprobs) == (TraceLevel.FULL, 3)
    assert request(logprobs=True).top_logprobs == 0
    assert request().trace is TraceLevel.OFF


def test_a_parameter_that_asks_for_nothing_is_accepted() -> None:
    assert request(
        logprobs=False,
        top_logprobs=0,
        response_format={"type": "text"},
        n=None,
        user="someone",
        store=True,
        functions=[],
    )
