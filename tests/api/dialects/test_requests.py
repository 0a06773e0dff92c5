"""Requests become generations of the engine: what the APIs share, each in its own spelling."""

import json
from typing import Any

import pytest

from engine.values.request import Effort, OutputConstraint, Tool, ToolChoice, TraceLevel
from engine.values.tokens import PromptScoring
from tests.api.dialects.asking import (
    refusal,
    refused_field,
    request,
)

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
FUNCTION = {"name": "look", "parameters": SCHEMA}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": FUNCTION | {"strict": True}},
    "responses": {"type": "function", "strict": True, **FUNCTION},
    "messages": {"name": "look", "input_schema": SCHEMA, "defer_loading": False},
    "ollama_chat": {"type": "function", "function": FUNCTION},
}
WITH_TOOLS = pytest.mark.parametrize("api", TOOLS)


# -- sampling and stops ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "fields", "limit"),
    [
        ("chat", {}, None),
        ("chat", {"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ("messages", {"max_tokens": 64_000}, 64_000),
        ("completions", {}, 16),
        ("completions", {"max_tokens": 0}, 0),
        ("responses", {"max_output_tokens": 7}, 7),
        ("responses", {"max_output_tokens": -1}, None),
        ("responses", {"max_completion_tokens": 7, "max_tokens": 8}, 7),
        ("generate", {}, 128),
        ("generate", {"sampling_params": {"max_new_tokens": 7}}, 7),
        ("ollama_chat", {"options": {"num_predict": 7}}, 7),
        *(("ollama_chat", {"options": {"num_predict": none}}, None) for none in (None, 0, -1, -2)),
    ],
)
def test_the_limit_is_the_vendors(api: str, fields: dict[str, Any], limit: int | None) -> None:
    assert request(api, **fields).max_tokens == limit


# Where each API has its stops.
STOPS: dict[str, Any] = {
    "chat": lambda stop: {"stop": stop},
    "completions": lambda stop: {"stop": stop},
    "responses": lambda stop: {"stop": stop},
    "messages": lambda stop: {"stop_sequences": stop},
    "generate": lambda stop: {"sampling_params": {"stop": stop}},
    "ollama_chat": lambda stop: {"options": {"stop": stop}},
}


@pytest.mark.parametrize("api", STOPS)
def test_stops_are_null_a_text_or_a_list_without_duplicates(api: str) -> None:
    many = [str(number) for number in range(64)]
    for stop, expected in (
        (None, ()),
        ([], ()),
        (["\n\nUser:", "END", "END"], ("\n\nUser:", "END")),
        (many, tuple(many)),
        *([] if api == "messages" else [("END", ("END",))]),
    ):
        assert request(api, **STOPS[api](stop)).stops.strings == expected


@pytest.mark.parametrize(
    ("api", "stop", "message"),
    [("messages", ["END", "\n\n"], "must contain non-whitespace"), ("chat", [*"12345"], "")],
)
def test_only_a_strict_server_refuses_the_stops_that_the_hosted_one_refuses(
    api: str, stop: list[str], message: str
) -> None:
    assert request(api, **STOPS[api](stop)).stops.strings == tuple(stop)
    error = refusal(api, strict=True, **STOPS[api](stop))
    assert message in error.message
    assert error.field == ("stop_sequences", 1) or error.code == "array_above_max_length"


# -- log-probabilities -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "fields", "trace", "top"),
    [
        ("chat", {}, TraceLevel.OFF, 0),
        ("chat", {"logprobs": True, "top_logprobs": 3}, TraceLevel.FULL, 3),
        ("completions", {}, TraceLevel.OFF, 0),
        ("completions", {"logprobs": 5}, TraceLevel.FULL, 5),
        ("responses", {"include": ["reasoning.encrypted_content"]}, TraceLevel.OFF, 0),
        ("responses", {"include": ["message.output_text.logprobs"]}, TraceLevel.FULL, 0),
        ("responses", {"top_logprobs": 3}, TraceLevel.FULL, 3),
        ("generate", {}, TraceLevel.STOPS, 0),
        ("generate", {"return_logprob": True, "top_logprobs_num": 3}, TraceLevel.FULL, 3),
    ],
)
def test_log_probabilities_need_a_full_trace(
    api: str, fields: dict[str, Any], trace: TraceLevel, top: int
) -> None:
    found = request(api, **fields)

    assert (found.trace, found.top_logprobs) == (trace, top)


@pytest.mark.parametrize(
    ("api", "fields", "scoring"),
    [
        ("completions", {"logprobs": 3}, None),
        ("completions", {"logprobs": 3, "echo": True}, PromptScoring(top=3)),
        ("completions", {"prompt_logprobs": 0}, PromptScoring()),
        (
            "completions",
            {"prompt_logprobs": 4, "logprobs": 2, "echo": True},
            PromptScoring(top=4),
        ),
        ("generate", {}, None),
        ("generate", {"logprob_start_len": -1}, None),
        ("generate", {"logprob_start_len": 7, "top_logprobs_num": 2}, PromptScoring(7, 2)),
        # Without an answer, the request means those of the prompt.
        ("generate", {"sampling_params": {"max_new_tokens": 0}}, PromptScoring()),
    ],
)
def test_the_prompt_is_scored_from_the_requested_position(
    api: str, fields: dict[str, Any], scoring: PromptScoring | None
) -> None:
    wanted = {"return_logprob": True} if api == "generate" else {}

    assert request(api, **wanted, **fields).prompt_scoring == scoring
    if api == "generate":
        assert request(api, **fields).prompt_scoring is None


# -- thinking ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "fields", "thinks"),
    [
        *(
            ("chat", fields, thinks)
            for fields, thinks in (
                ({}, None),
                ({"enable_thinking": True}, True),
                ({"reasoning": {"enabled": True}}, True),
                ({"reasoning": {"enabled": True, "effort": "none"}}, False),
                ({"reasoning": {"max_tokens": 99}}, True),
                ({"reasoning": {"max_tokens": 99, "enabled": False}}, False),
                ({"reasoning_effort": "none", "reasoning": {"effort": "high"}}, False),
                ({"enable_thinking": False, "reasoning_effort": "high"}, False),
                (
                    {"chat_template_kwargs": {"enable_thinking": False}, "enable_thinking": True},
                    False,
                ),
            )
        ),
        ("responses", {}, None),
        ("responses", {"reasoning": {"summary": "auto"}}, True),
        ("responses", {"reasoning": {"effort": "high"}, "enable_thinking": False}, False),
        ("messages", {}, False),
        ("messages", {"thinking": {"type": "disabled"}}, False),
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
        ("messages", {"thinking": {"type": "adaptive", "display": "summarized"}}, True),
        # A display of next year is shown.
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "up"}}, True),
        ("ollama_chat", {"think": False}, False),
        ("ollama_chat", {"think": "max"}, True),
    ],
)
def test_thinking_is_on_as_the_vendors_fields_say(
    api: str, fields: dict[str, Any], thinks: bool | None
) -> None:
    assert request(api, **fields).thinking is thinks


@pytest.mark.parametrize(
    ("word", "effort", "thinks"),
    [
        ("none", Effort.NONE, False),
        ("minimal", Effort.MINIMAL, False),
        ("HIGH", Effort.HIGH, True),
        ("xhigh", Effort.XHIGH, True),
        ("ultra", Effort.HIGH, True),
    ],
)
def test_each_level_of_effort_means_the_same_in_every_api(
    word: str, effort: Effort | None, thinks: bool
) -> None:
    for api, fields in (
        ("chat", {"reasoning_effort": word}),
        ("chat", {"reasoning": {"effort": word}}),
        ("responses", {"reasoning": {"effort": word}}),
        ("ollama_chat", {"think": word}),
    ):
        found = request(api, **fields)
        assert (found.effort, found.thinking) == (effort, thinks)


# -- tools -------------------------------------------------------------------------------------

CHOSEN: dict[str, list[tuple[Any, ToolChoice]]] = {
    "messages": [
        (None, ToolChoice()),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "look"}, ToolChoice("required", "look")),
    ],
    "chat": [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "look"}}, ToolChoice("required", "look")),
    ],
    "responses": [
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "look"}, ToolChoice("required", "look")),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "look"}],
            },
            ToolChoice("required"),
        ),
    ],
}


@pytest.mark.parametrize("api", CHOSEN)
def test_a_call_can_be_required_and_no_tool_is_offered_if_the_choice_is_none(api: str) -> None:
    for choice, expected in CHOSEN[api]:
        found = request(api, tools=[TOOLS[api]], tool_choice=choice)
        assert found.tool_choice == expected
        assert found.tools == (() if expected.mode == "none" else (Tool("look", "", SCHEMA),))
    assert request(api, tools=[]).tools == ()


@WITH_TOOLS
@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_20250305", "namespace", "tool_search", "of_next_year"]
)
def test_an_unknown_tool_that_is_not_required_is_left_out(api: str, kind: str) -> None:
    tools = [{"type": kind, "name": "x"}, TOOLS[api]]

    assert [tool.name for tool in request(api, tools=tools).tools] == ["look"]


@pytest.mark.parametrize("api", [api for api in TOOLS if api != "ollama_chat"])
def test_required_call_of_a_tool_that_does_not_run_here_names_it(api: str) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    choices = {"messages": [{"type": "any"}, {"type": "tool", "name": "web_search"}]}
    for choice in choices.get(api, ["required"]):
        error = refusal(api, tools=tools, tool_choice=choice)

        assert error.field == ("tool_choice",)
        assert "does not run web_search_20250305" in error.message


# -- formats -----------------------------------------------------------------------------------

# For each API: how a request asks for a schema, for any object, and for text.
FORMATS: dict[str, tuple[Any, ...]] = {
    "chat": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "text"}},
    ),
    "completions": ({"guided_json": SCHEMA}, {"structured_outputs": {"json_object": True}}, {}),
    "responses": (
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
        {"text": {"format": {"type": "json_object"}}},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    ),
    "messages": (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        None,
        {"output_config": {"effort": "high"}},
    ),
    "ollama_chat": ({"format": SCHEMA}, {"format": "json"}, {"format": ""}),
    "generate": ({"sampling_params": {"json_schema": json.dumps(SCHEMA)}}, None, {}),
}


@pytest.mark.parametrize("api", FORMATS)
def test_a_format_constrains_the_answer_and_may_allow_more_keys(api: str) -> None:
    schema, any_object, text = FORMATS[api]
    for is_open in (False, True):
        found = request(api, **schema, fullstop={"additional_properties": is_open})
        assert found.constraint == OutputConstraint(SCHEMA)
        assert found.allows_more_keys is is_open
    if any_object is not None:
        assert request(api, **any_object).constraint == OutputConstraint()
    assert request(api, **text).constraint is None


# -- what cannot be honoured -------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], tuple[str | int, ...]]] = [
    (
        "messages",
        {"tool_choice": {"type": "any"}, "tools": [{"type": "web_search", "name": "x"}]},
        ("tool_choice",),
    ),
    (
        "messages",
        {"output_config": {"format": {"type": "json_schema"}}},
        ("output_config", "format", "schema"),
    ),
    ("messages", {"mcp_servers": [{"url": "http://example.org"}]}, ("mcp_servers",)),
    ("messages", {"tools": [{"name": "x"}]}, ("tools", 0, "input_schema")),
    (
        "chat",
        {"response_format": {"type": "json_schema"}},
        ("response_format", "json_schema", "schema"),
    ),
    (
        "chat",
        {"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": [TOOLS["chat"]]},
        ("tool_choice",),
    ),
    (
        "chat",
        {"tool_choice": {"type": "allowed_tools"}, "tools": [TOOLS["chat"]]},
        ("tool_choice", "tools"),
    ),
    ("chat", {"functions": [{"name": "f"}], "tools": [TOOLS["chat"]]}, ("functions",)),
    ("chat", {"modalities": ["text", "audio"]}, ("modalities",)),
    ("chat", {"top_logprobs": 2}, ("top_logprobs",)),
    ("completions", {"n": 3, "best_of": 2}, ("best_of",)),
    ("completions", {"prompt_logprobs": 1, "stream": True}, ("prompt_logprobs",)),
    ("completions", {"n": 128, "prompt": ["a", "b"]}, ("n",)),
    ("responses", {"text": {"format": {"type": "json_schema"}}}, ("text", "format", "schema")),
    ("responses", {"tools": [{"type": "web_search"}, {"type": "function"}]}, ("tools", 1, "name")),
    ("responses", {"tool_choice": {"type": "web_search"}}, ("tool_choice",)),
    ("ollama_chat", {"format": "xml"}, ("format",)),
    ("ollama_chat", {"options": {"mirostat": 1}}, ("options", "mirostat")),
    ("ollama_generate", {"raw": True, "system": "Be brief."}, ("system",)),
    ("generate", {"input_ids": [1]}, ("text",)),
    ("generate", {"sampling_params": [{}, {}]}, ("sampling_params",)),
    ("generate", {"sampling_params": {"json_schema": "{"}}, ("sampling_params", "json_schema")),
    ("generate", {"text": ["a"] * 100, "sampling_params": {"n": 2}}, ("sampling_params", "n")),
]


@pytest.mark.parametrize(("api", "fields", "field"), REFUSED)
def test_a_parameter_that_would_change_the_answer_is_refused_by_name(
    api: str, fields: dict[str, Any], field: tuple[str | int, ...]
) -> None:
    assert refused_field(api, **fields) == field


def test_thread_is_refused_as_clients_expect() -> None:
    error = refusal("messages", thread={"type": "continue", "id": "t"})

    assert error.field == ("thread",)
    assert error.details == {"error_code": "thread_unsupported_request"}
