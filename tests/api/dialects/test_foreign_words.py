"""The same wish in the words of several vendors, and history with their fields."""

from typing import Any

import pytest

from api.service.errors import ApiError
from engine.values.request import OutputConstraint, TextForm
from tests.api.dialects.asking import HI, OPENAI, request, turns

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
TOKENS = {
    "chat": ("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict"),
    "completions": ("max_tokens", "max_new_tokens", "n_predict"),
    "generate": ("max_new_tokens",),
    "ollama_chat": ("num_predict",),
    "ollama_generate": ("num_predict",),
}
INNER = {
    "generate": "sampling_params",
    "ollama_chat": "options",
    "ollama_generate": "options",
}


@pytest.mark.parametrize(
    ("api", "name"), [(api, name) for api, names in TOKENS.items() for name in names]
)
def test_a_token_limit_of_minus_one_is_no_limit(api: str, name: str) -> None:
    def limited(value: object) -> int | None:
        fields = {name: value}
        return request(api, **({INNER[api]: fields} if api in INNER else fields)).max_tokens

    assert (limited(-1), limited(-2), limited(7)) == (None, None, 7)
    with pytest.raises(ApiError, match="greater"):
        limited(-3)


@OPENAI
@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"response_format": {"type": "json_object", "value": SCHEMA}},
        {"response_format": {"type": "json", "value": SCHEMA}},
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {
            "response_format": {
                "type": "json_schema",
                "schema": SCHEMA,
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            }
        },
        {"json_schema": SCHEMA},
        {"guided_json": SCHEMA},
        {"structured_outputs": {"json": SCHEMA}},
        {"format": SCHEMA},
    ],
    ids=repr,
)
def test_a_schema_is_found_wherever_a_vendor_puts_it(api: str, fields: dict[str, Any]) -> None:
    constraint = request(api, **fields).constraint
    assert constraint == OutputConstraint(SCHEMA, is_strict="strict" in str(fields))


@OPENAI
def test_other_formats_are_found_in_response_format(api: str) -> None:
    for form, expected in (
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputConstraint()),
        ({"type": "regex", "value": "a+"}, OutputConstraint(text_form=TextForm(regex="a+"))),
        ({"type": "regex", "pattern": "a+"}, OutputConstraint(text_form=TextForm(regex="a+"))),
        (
            {"type": "grammar", "grammar": "start: A"},
            OutputConstraint(text_form=TextForm(grammar="start: A")),
        ),
    ):
        assert request(api, response_format=form).constraint == expected
    assert request(api, format="json").constraint == OutputConstraint()
    assert request(api, format="").constraint is None


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        *(
            ("chat", fields)
            for fields in (
                {"reasoning_content": "Why"},
                {"reasoning": "Why"},
                {"reasoning_content": None, "reasoning": "Why"},
                {"reasoning_content": "Why", "reasoning": "Why"},
                {"thinking": "Why"},
                {"reasoning_details": [{"type": "reasoning.text", "text": "Why"}]},
                {"reasoning_details": [{"type": "reasoning.summary", "summary": "Why"}]},
                {"thinking_blocks": [{"type": "thinking", "thinking": "Why", "signature": "s"}]},
                {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "Why"}]},
                        {"type": "text", "text": "So"},
                    ]
                },
            )
        ),
        ("ollama_chat", {"thinking": "Why"}),
        ("ollama_chat", {"reasoning_content": "Why"}),
        ("ollama_chat", {"reasoning": "Why"}),
    ],
)
def test_reasoning_in_history_reaches_the_model(api: str, fields: dict[str, Any]) -> None:
    answer = {"role": "assistant", "content": "So", **fields}
    _, turn, _ = turns(api, *HI, answer, *HI)
    assert (turn.thinking, turn.content) == ("Why", "So")


@pytest.mark.parametrize(
    ("api", "fields", "instead"),
    [
        ("messages", {"response_format": {"type": "json_object"}}, "output_config.format"),
        ("messages", {"stop": ["x"]}, "stop_sequences"),
        ("messages", {"min_tokens": 3}, "fullstop.min_tokens"),
        ("messages", {"functions": [{"name": "f"}]}, "tools"),
        ("responses", {"stop_sequences": ["x"]}, "stop"),
        ("responses", {"system": "x"}, "instructions"),
        ("responses", {"output_format": {"type": "json_schema"}}, "text.format"),
        ("generate", {"response_format": {"type": "json_object"}}, "sampling_params.json_schema"),
        ("ollama_chat", {"stop": "x"}, "options.stop"),
    ],
)
def test_a_refused_name_says_how_the_route_spells_it(
    api: str, fields: dict[str, Any], instead: str
) -> None:
    [name] = fields
    with pytest.raises(ApiError, match=rf"use {instead}$") as caught:
        request(api, **fields)
    assert caught.value.field == (name,)


def test_names_of_participants_are_named_and_refusals_are_the_turns_text() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = request(
        "chat",
        messages=[
            {"role": "user", "content": "Hi", "name": "ann"},
            {"role": "assistant", "content": None, "refusal": "I cannot."},
            {"role": "user", "content": "Hi", "name": None},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "name": "other", "content": "1"},
            {"role": "tool", "tool_call_id": "d", "name": "g", "content": "2"},
        ],
    )
    assert asked.not_applied == ("messages.0.name",)
    assert asked.messages[1].content == "I cannot."
    assert [turn.name for turn in asked.messages[-2:]] == ["f", "g"]
