"""Parameters that would change the answer are honoured, or refused by name."""

import json
from typing import Any

import pytest

from api.dialects.anthropic.read import requests_from_wire as read_message
from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.chat.read import requests_from_wire as read_chat
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.chat.write import ChatEncoder, write_completion
from api.dialects.completions.read import requests_from_wire as read_completion
from api.dialects.completions.wire import CompletionParams
from api.dialects.ollama.read import chat_from_wire
from api.dialects.ollama.wire import ChatParams
from api.dialects.responses.read import requests_from_wire as read_response
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang.read import requests_from_wire as read_generate
from api.dialects.sglang.wire import GenerateParams
from api.dialects.shared.body import parsed
from api.dialects.shared.dialect import Head
from api.transport.errors import ApiError
from engine.scheduling.generation import merge_deltas
from engine.values.request import GenerationRequest, OutputConstraint

TURNS = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}


def chat(**fields: Any) -> GenerationRequest:
    body = json.dumps({"model": "m", "messages": TURNS, **fields}).encode()
    return read_chat(parsed(body, ChatCompletionParams))[0]


def completion(**fields: Any) -> GenerationRequest:
    body = json.dumps({"model": "m", "prompt": "Hi", **fields}).encode()
    return read_completion(parsed(body, CompletionParams))[0]


def response(**fields: Any) -> GenerationRequest:
    body = json.dumps({"model": "m", "input": "Hi", **fields}).encode()
    return read_response(parsed(body, ResponseParams))[0]


def message(**fields: Any) -> GenerationRequest:
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": TURNS, **fields}).encode()
    return read_message(parsed(body, MessageCreateParams))[0]


def ollama(**fields: Any) -> GenerationRequest:
    body = json.dumps({"model": "m", "messages": TURNS, **fields}).encode()
    return chat_from_wire(parsed(body, ChatParams))[0]


READERS = {"chat": chat, "completions": completion, "responses": response}
OPENAI = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


def refused_field(read: Any, **fields: Any) -> tuple[str | int, ...]:
    with pytest.raises(ApiError) as refused:
        read(**fields)
    return refused.value.field


@OPENAI
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("web_search_options", {}),
        ("structural_tag", {"type": "x"}),
        ("allowed_token_ids", [1]),
        ("bad_words", ["no"]),
        ("logits_processors", ["x"]),
        ("use_beam_search", True),
        ("length_penalty", 0.5),
        ("typical_p", 0.5),
        ("mirostat", 2),
        ("tfs_z", 0.5),
        ("top_a", 0.1),
        ("dry_multiplier", 0.8),
        ("xtc_probability", 0.5),
        ("truncate_prompt_tokens", 100),
        ("chat_template", "{{ messages }}"),
        ("documents", [{"text": "x"}]),
        ("prompt_embeds", "AAAA"),
        ("skip_special_tokens", False),
    ],
)
def test_a_parameter_that_cannot_be_honoured_is_refused_by_name(
    read: Any, name: str, value: Any
) -> None:
    assert refused_field(read, **{name: value}) == (name,)


def test_responses_refuses_to_score_its_prompt() -> None:
    assert refused_field(response, prompt_logprobs=0) == ("prompt_logprobs",)
    assert refused_field(completion, prompt_logprobs=21) == ("prompt_logprobs",)


@OPENAI
def test_a_parameter_that_is_switched_off_is_accepted(read: Any) -> None:
    read(
        prompt_logprobs=None,
        web_search_options=None,
        use_beam_search=False,
        length_penalty=1.0,
        typical_p=1,
        mirostat=0,
        tfs_z=1.0,
        top_a=0,
        dry_multiplier=0.0,
        xtc_probability=0,
        truncate_prompt_tokens=-1,
        grammar="",
        bad_words=[],
        add_generation_prompt=True,
        skip_special_tokens=True,
    )


@pytest.mark.parametrize("read", [chat, completion])
def test_best_of_more_than_n_is_refused(read: Any) -> None:
    assert refused_field(read, best_of=2) == ("best_of",)
    assert refused_field(read, n=3, best_of=2) == ("best_of",)
    assert read(n=2, best_of=2)


@OPENAI
@pytest.mark.parametrize("value", [SCHEMA, json.dumps(SCHEMA)], ids=["object", "text"])
def test_guided_json_constrains_the_answer_to_its_schema(read: Any, value: Any) -> None:
    for field in ({"guided_json": value}, {"structured_outputs": {"json": value}}):
        assert read(**field).constraint == OutputConstraint(SCHEMA)


@OPENAI
def test_structured_outputs_accepts_any_object_and_refuses_tags(read: Any) -> None:
    assert read(structured_outputs={"json_object": True}).constraint == OutputConstraint()
    assert read(structured_outputs={}).constraint is None
    field = refused_field(read, structured_outputs={"structural_tag": "x"})
    assert field == ("structured_outputs", "structural_tag")


@OPENAI
@pytest.mark.parametrize("value", ["{", "[]", "null", 5, [SCHEMA]])
def test_an_invalid_schema_is_refused(read: Any, value: Any) -> None:
    assert refused_field(read, guided_json=value) == ("guided_json",)
    inner = refused_field(read, structured_outputs={"json": value})
    assert inner == ("structured_outputs", "json")


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/chat/completions", {"messages": TURNS}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/responses", {"input": "Hi"}),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_schema_that_does_not_compile_is_named_by_the_field_that_was_sent(
    site: Any, path: str, prompt: dict[str, Any], is_streamed: bool
) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "objekt"}}}
    for form, param in (
        ({"guided_json": bad}, "guided_json"),
        ({"structured_outputs": {"json": bad}}, "structured_outputs.json"),
    ):
        reply = site.send("POST", path, {"model": "m", "stream": is_streamed, **prompt, **form})
        assert reply.status == 400
        assert reply.json["error"]["param"] == param
        assert "objekt" in reply.json["error"]["message"]


def test_two_constraints_in_one_request_are_refused() -> None:
    form = {"type": "json_object"}

    assert refused_field(chat, response_format=form, guided_json=SCHEMA) == ("guided_json",)
    structured = {"json": SCHEMA}
    place = ("structured_outputs", "json")
    assert refused_field(response, text={"format": form}, structured_outputs=structured) == place
    assert refused_field(completion, guided_json=SCHEMA, structured_outputs=structured) == place


@OPENAI
def test_a_request_may_allow_more_keys_than_its_schema_names(read: Any) -> None:
    wanted = {"guided_json": SCHEMA}

    assert not read(**wanted).allows_more_keys
    assert read(**wanted, fullstop={"additional_properties": True}).allows_more_keys
    for is_closed in (False, True):
        asked = {"json": SCHEMA, "disable_additional_properties": is_closed}
        assert read(structured_outputs=asked).allows_more_keys is not is_closed


def generate(**fields: Any) -> GenerationRequest:
    return read_generate(parsed(json.dumps({"text": "Hi", **fields}).encode(), GenerateParams))[0]


@pytest.mark.parametrize(
    ("read", "asked"),
    [
        (chat, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        (completion, {"guided_json": SCHEMA}),
        (response, {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (message, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (ollama, {"format": SCHEMA}),
        (generate, {"sampling_params": {"json_schema": json.dumps(SCHEMA)}}),
    ],
    ids=["chat", "completions", "responses", "messages", "ollama", "generate"],
)
def test_a_request_of_every_dialect_may_allow_more_keys(read: Any, asked: dict[str, Any]) -> None:
    for is_open in (False, True):
        found = read(**asked, fullstop={"additional_properties": is_open})
        assert found.constraint == OutputConstraint(SCHEMA)
        assert found.allows_more_keys is is_open


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_server_answers_with_guided_json(site: Any, path: str) -> None:
    ask = {"model": "m", "messages": TURNS, "prompt": "Hi", "max_tokens": 60, "guided_json": SCHEMA}
    choice = site.send("POST", path, ask).json["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]

    assert json.loads(text) == {"city": "Oslo"}


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, None),
        ({"reasoning": {}}, None),
        ({"reasoning": {"effort": "high"}}, True),
        ({"reasoning": {"effort": "xhigh"}}, True),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"effort": "minimal"}}, False),
        ({"reasoning": {"enabled": True}}, True),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"enabled": True, "effort": "none"}}, False),
        ({"reasoning_effort": "none", "reasoning": {"effort": "high"}}, False),
        ({"enable_thinking": False, "reasoning": {"effort": "high"}}, False),
    ],
)
def test_chat_accepts_the_effort_of_gateways(fields: dict[str, Any], thinks: bool | None) -> None:
    assert chat(**fields).thinking is thinks


def test_chat_leaves_reasoning_out_of_the_answer_on_request(scenario_named: Any) -> None:
    scenario = scenario_named("thinking")
    events = merge_deltas([event for batch in scenario.batches for event in batch])
    head = Head("1", 0, "m")
    for excluded in (False, True):
        params = ChatCompletionParams.model_validate(
            {"model": "m", "messages": TURNS, "reasoning": {"exclude": excluded}}
        )
        whole = write_completion([(events, scenario.finished)], params, head)
        encoder = ChatEncoder(params, head)
        streamed = [one.data for batch in scenario.batches for one in encoder.encode(batch)]

        assert ("reasoning_content" in json.dumps(whole)) is not excluded
        assert any("reasoning_content" in data for data in streamed) is not excluded
        assert any('"content":"4"' in data for data in streamed)


@pytest.mark.parametrize("display", ["updates", "full", "Summarized", ""])
def test_thinking_with_an_unknown_display_is_shown(display: str, site: Any) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024, "display": display}

    assert message(thinking=thinking).thinking
    ask = {"model": "m", "max_tokens": 5, "messages": TURNS, "thinking": thinking}
    assert site.send("POST", "/v1/messages", ask).status == 200


FUNCTION = {"name": "look", "description": "", "parameters": SCHEMA}
FUNCTIONS: dict[str, Any] = {
    "chat": {"type": "function", "function": FUNCTION},
    "responses": {"type": "function", **FUNCTION},
    "messages": {"name": "look", "input_schema": SCHEMA},
    "ollama": {"type": "function", "function": FUNCTION},
}
TOOL_READERS = {"chat": chat, "responses": response, "messages": message, "ollama": ollama}
DIALECTS = pytest.mark.parametrize("dialect", TOOL_READERS)


@DIALECTS
@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_20250305", "namespace", "tool_search", "of_next_year"]
)
def test_an_unknown_tool_that_is_not_required_is_left_out_in_every_dialect(
    dialect: str, kind: str
) -> None:
    tools = [{"type": kind, "name": "x"}, FUNCTIONS[dialect]]

    assert [tool.name for tool in TOOL_READERS[dialect](tools=tools).tools] == ["look"]


@DIALECTS
@pytest.mark.parametrize(
    "kind",
    ["mcp", "file_search", "code_interpreter", "code_execution_20250522", "computer_20250124"],
)
def test_an_unknown_tool_that_is_required_is_refused_in_every_dialect(
    dialect: str, kind: str
) -> None:
    tools = [FUNCTIONS[dialect], {"type": kind, "name": "x"}]

    assert refused_field(TOOL_READERS[dialect], tools=tools) == ("tools", 1, "type")


def test_a_tool_of_free_text_is_refused_where_the_api_has_none() -> None:
    """In Messages, the type "custom" means a function."""
    tools = [{"type": "custom", "name": "x", "custom": {"name": "x"}}]

    assert refused_field(TOOL_READERS["ollama"], tools=tools) == ("tools", 0, "type")
    assert message(tools=[FUNCTIONS["messages"] | {"type": "custom"}]).tools


@pytest.mark.parametrize(
    ("dialect", "tool", "field"),
    [
        ("chat", {"type": "function"}, ("tools", 0, "function")),
        ("chat", {}, ("tools", 0, "function")),
        ("ollama", {}, ("tools", 0, "function")),
        ("responses", {"type": "function"}, ("tools", 0, "name")),
        ("messages", {"name": "x"}, ("tools", 0, "input_schema")),
        ("messages", {"input_schema": {}}, ("tools", 0, "name")),
    ],
)
def test_the_missing_part_of_a_function_is_named(dialect: str, tool: Any, field: Any) -> None:
    assert refused_field(TOOL_READERS[dialect], tools=[tool]) == field


def test_a_tool_that_was_left_out_cannot_be_required() -> None:
    tools = [{"type": "web_search", "name": "x"}]

    assert refused_field(message, tools=tools, tool_choice={"type": "any"}) == ("tool_choice",)
    choice = {"type": "tool", "name": "x"}
    assert refused_field(message, tools=tools, tool_choice=choice) == ("tool_choice",)
    assert refused_field(chat, tools=tools, tool_choice="required") == ("tool_choice",)
    assert refused_field(response, tools=tools, tool_choice="required") == ("tool_choice",)
