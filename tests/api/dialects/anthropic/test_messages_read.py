from typing import Any

import pytest

from api.dialects.anthropic.read import prompt_from_wire, requests_from_wire
from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams
from api.dialects.anthropic.write import stop_to_wire, usage_to_wire, write_message
from api.dialects.shared.body import parsed
from api.dialects.shared.dialect import Head
from api.transport.answer_text import json_text
from api.transport.errors import ApiError
from engine.errors import InvalidRequest
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopScope
from engine.values.chat import Message, Tool, ToolCall
from engine.values.events import TextDelta, ThinkingDelta, Usage
from engine.values.request import GenerationRequest, OutputConstraint, ToolChoice

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "input_schema": SCHEMA}
HEAD = Head("1", 1, "m")


def params(**fields: Any) -> MessageCreateParams:
    body = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}
    return parsed(json_text({**body, **fields}).encode(), MessageCreateParams)


def request(**fields: Any) -> GenerationRequest:
    [wanted] = requests_from_wire(params(**fields))
    return wanted


def turns(*messages: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    return request(messages=list(messages), **fields).messages


def test_a_string_and_a_text_block_are_the_same_turn() -> None:
    block = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}

    assert turns({"role": "user", "content": "Hi"}) == (Message("user", "Hi"),)
    assert turns({"role": "user", "content": [block]}) == (Message("user", "Hi"),)


def test_system_may_be_a_string_or_blocks_or_a_turn_anywhere() -> None:
    hi = {"role": "user", "content": "Hi"}
    blocks = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief"}]

    assert turns(hi, system="Be brief")[0] == Message("system", "Be brief")
    assert turns(hi, system=blocks)[0] == Message("system", "Be\n\nbrief")
    assert turns(hi, {"role": "system", "content": "Be brief"}) == (
        Message("user", "Hi"),
        Message("system", "Be brief"),
    )


def test_the_same_role_twice_in_a_row_is_one_turn() -> None:
    found = turns(
        {"role": "user", "content": "One"},
        {"role": "user", "content": "Two"},
        {"role": "assistant", "content": "Th"},
        {"role": "assistant", "content": "ree"},
    )

    assert found == (Message("user", "One\nTwo"), Message("assistant", "Three"))


def test_a_prefill_keeps_every_character() -> None:
    blocks = [{"type": "text", "text": " {\n"}, {"type": "text", "text": '"a": '}]

    found = turns({"role": "user", "content": "JSON"}, {"role": "assistant", "content": blocks})

    assert found[-1] == Message("assistant", ' {\n"a": ')


def test_calls_thinking_and_results_become_separate_turns() -> None:
    found = turns(
        {"role": "user", "content": "Weather?"},
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

    assert found[1:] == (
        Message(
            "assistant",
            "A moment.",
            thinking="Look it up.",
            tool_calls=(ToolCall("toolu_1", "weather", '{"city": "Bø"}'),),
        ),
        Message("tool", "Rain", tool_call_id="toolu_1", name="weather"),
        Message("user", "And tomorrow?"),
    )


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

    (turn,) = turns({"role": "user", "content": [block]})

    assert turn.content == text


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (None, False),
        ({"type": "disabled"}, False),
        ({"type": "between_tools"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive", "display": "summarized"}, True),
    ],
)
def test_thinking_is_off_unless_asked_for(thinking: Any, expected: bool) -> None:
    assert request(thinking=thinking).thinking is expected


def test_tools_are_offered_unless_the_choice_is_none() -> None:
    tool = {"name": "weather", "input_schema": SCHEMA, "defer_loading": False}

    assert request(tools=[tool]).tools == (Tool("weather", "", SCHEMA),)
    assert request(tools=[tool | {"type": "custom"}], tool_choice={"type": "auto"}).tools
    assert request(tools=[tool], tool_choice={"type": "none"}).tools == ()
    assert request(tools=[]).tools == ()


def test_sampling_and_stops_arrive_as_they_were_sent() -> None:
    found = request(
        temperature=0.5,
        top_p=0.9,
        top_k=20,
        stop_sequences=["\n\nUser:", "END", "END"],
        fullstop={"stop_scope": "text+thinking"},
    )

    assert (found.sampling.temperature, found.sampling.top_p, found.sampling.top_k) == (
        0.5,
        0.9,
        20,
    )
    assert found.stops.strings == ("\n\nUser:", "END")
    assert found.stops.scope is StopScope.TEXT_AND_THINKING
    assert found.max_tokens == 64


def test_a_limit_beyond_any_context_is_accepted() -> None:
    assert request(max_tokens=64_000).max_tokens == 64_000


def test_a_top_p_of_0_means_the_likeliest_token() -> None:
    sampling = request(top_p=0).sampling

    assert (sampling.top_p, sampling.top_k) == (None, 1)


def test_the_counted_prompt_is_the_prompt_of_the_answer() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "system": "Be brief"}
    counted = prompt_from_wire(CountTokensParams.model_validate(body))
    generated = request(system="Be brief")

    assert (counted.messages, counted.tools, counted.thinking) == (
        generated.messages,
        generated.tools,
        generated.thinking,
    )


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"tool_choice": {"type": "any"}}, ("tool_choice",)),
        ({"tool_choice": {"type": "any"}, "tools": []}, ("tool_choice",)),
        ({"tool_choice": {"type": "tool"}, "tools": [WEATHER]}, ("tool_choice", "name")),
        (
            {"tool_choice": {"type": "tool", "name": "time"}, "tools": [WEATHER]},
            ("tool_choice", "name"),
        ),
        (
            {"output_config": {"format": {"type": "json_schema"}}},
            ("output_config", "format", "schema"),
        ),
        ({"output_format": {"type": "grammar", "schema": {}}}, ("output_format", "type")),
        ({"mcp_servers": [{"url": "http://example.org"}]}, ("mcp_servers",)),
        ({"thread": {"type": "create"}}, ("thread",)),
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
        ({"type": "auto"}, ToolChoice()),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "weather"}, ToolChoice("required", "weather")),
    ],
)
def test_a_call_can_be_required(choice: Any, expected: ToolChoice) -> None:
    assert request(tools=[WEATHER], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
    ],
)
def test_a_schema_constrains_the_answer(fields: dict[str, Any]) -> None:
    assert request(**fields).constraint == OutputConstraint({"type": "object"})
    assert request(output_config={"effort": "high"}).constraint is None


def test_a_thread_is_refused_in_words_that_clients_recognise() -> None:
    with pytest.raises(ApiError) as caught:
        request(thread={"type": "continue", "id": "thread_1"})

    assert caught.value.details == {"error_code": "thread_unsupported_request"}


@pytest.mark.parametrize(
    ("turn", "path"),
    [
        (
            {
                "role": "user",
                "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
            },
            ("messages", 0, "content", 0),
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "1"}]},
            ("messages", 0, "content", 0),
        ),
    ],
)
def test_a_block_in_the_wrong_turn_is_named(turn: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(ApiError) as caught:
        request(messages=[turn])

    assert caught.value.field == path


def test_only_a_strict_server_refuses_a_stop_of_white_space() -> None:
    wanted = params(stop_sequences=["END", "\n\n"])

    assert requests_from_wire(wanted)[0].stops.strings == ("END", "\n\n")
    with pytest.raises(ApiError, match="must contain non-whitespace") as caught:
        requests_from_wire(wanted, strict=True)
    assert caught.value.field == ("stop_sequences", 1)


@pytest.mark.parametrize("bad", [1, None, "", "x" * 4097, ["END"]])
def test_a_bad_stop_is_named_by_its_index(bad: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request(stop_sequences=["END", bad])

    assert caught.value.field == "stop_sequences[1]"


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (StopInfo(StopKind.EOS), ("end_turn", None)),
        (StopInfo(StopKind.STOP_STRING, "END"), ("stop_sequence", "END")),
        (StopInfo(StopKind.STOP_TOKEN, 21), ("end_turn", None)),
        (StopInfo(StopKind.MAX_TOKENS), ("max_tokens", None)),
        (StopInfo(StopKind.CONTEXT_FULL), ("model_context_window_exceeded", None)),
        (StopInfo(StopKind.MEMORY_FULL), ("max_tokens", None)),
        (StopInfo(StopKind.TOOL_CALL), ("tool_use", None)),
    ],
    ids=lambda value: value.kind.value if isinstance(value, StopInfo) else "",
)
def test_a_normal_end_has_its_reason(stop: StopInfo, expected: tuple[str, str | None]) -> None:
    assert stop_to_wire(stop) == expected


@pytest.mark.parametrize("kind", [StopKind.ERROR, StopKind.CANCELLED])
def test_an_end_that_is_not_normal_has_no_reason(kind: StopKind) -> None:
    with pytest.raises(ApiError):
        stop_to_wire(StopInfo(kind))


def test_usage_counts_cached_tokens_separately() -> None:
    usage = usage_to_wire(Usage(100, 60, 7, 3))

    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (40, 60)
    assert (usage["output_tokens"], usage["output_tokens_details"]) == (7, {"thinking_tokens": 3})


def test_an_empty_answer_has_one_empty_block(scenario_named: Any) -> None:
    finished = scenario_named("stop_at_the_first_character").finished

    body = write_message([([], finished)], params(), HEAD)

    assert body["content"] == [{"type": "text", "text": ""}]
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "A")
    assert "fullstop" not in body


def test_thinking_comes_before_the_answer(scenario_named: Any) -> None:
    finished = scenario_named("thinking").finished
    events = [ThinkingDelta("Hm"), TextDelta("4")]

    body = write_message([(events, finished)], params(), HEAD)

    assert body["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "unsigned"},
        {"type": "text", "text": "4"},
    ]
