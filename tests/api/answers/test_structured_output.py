"""Formats and forced calls as each vendor spells them: valid whatever the model prefers to say."""

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel

TURNS: list[Any] = [{"role": "user", "content": "Count from 1 to 10, one number per line"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Oslo"]}, "is_raining": {"type": "boolean"}},
    "required": ["city", "is_raining"],
    "additionalProperties": False,
}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


class Weather(BaseModel):
    """The type of a parsed answer."""

    is_raining: bool


def chat(client: openai.OpenAI, is_streamed: bool, **wanted: Any) -> Any:
    wanted |= {"model": "m", "messages": TURNS, "max_tokens": 200}
    if not is_streamed:
        return client.chat.completions.create(**wanted).choices[0]
    with client.chat.completions.stream(**wanted) as stream:
        return stream.get_final_completion().choices[0]


@STREAMED
def test_chat_constrains_an_answer_to_a_schema(openai_client: Any, is_streamed: bool) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
    choice = chat(openai_client, is_streamed, response_format=wanted)
    answer = json.loads(choice.message.content)

    assert answer.keys() == {"city", "is_raining"}
    assert choice.finish_reason == "stop"


def test_chat_parses_an_answer(openai_client: Any) -> None:
    answer = openai_client.chat.completions.parse(
        model="m", messages=TURNS, response_format=Weather
    )

    assert isinstance(answer.choices[0].message.parsed, Weather)


@STREAMED
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_chat_makes_a_call_that_is_required(
    openai_client: Any, choice: Any, is_streamed: bool
) -> None:
    function = {"name": "get_weather", "parameters": PARAMETERS}
    tools = [{"type": "function", "function": function}]
    found = chat(openai_client, is_streamed, tools=tools, tool_choice=choice)
    (call,) = found.message.tool_calls

    assert found.finish_reason == "tool_calls"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Oslo")


# A schema that is out of bounds and one that is none, and what is said of them.
REFUSED = {
    "out of range: numbers from -9223372036854774784 to 18446744073709551616": {
        "type": "integer",
        "minimum": -1e19,
        "maximum": -1e19,
    },
    "type must be a string or array of strings": {"type": 5},
}
# For each field that takes a schema: the path, what a request has in it, and the field's name.
TAKEN: list[tuple[str, Callable[[Any], dict[str, Any]], str]] = [
    (
        "/v1/chat/completions",
        lambda schema: {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": schema},
            }
        },
        "response_format.json_schema.schema",
    ),
    ("/v1/chat/completions", lambda schema: {"guided_json": schema}, "guided_json"),
    (
        "/v1/completions",
        lambda schema: {"prompt": "Hi", "structured_outputs": {"json": schema}},
        "structured_outputs.json",
    ),
    (
        "/v1/responses",
        lambda schema: {
            "input": "Hi",
            "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}},
        },
        "text.format.schema",
    ),
    (
        "/v1/messages",
        lambda schema: {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        "output_config.format.schema",
    ),
    (
        "/generate",
        lambda schema: {"text": "Hi", "sampling_params": {"json_schema": json.dumps(schema)}},
        "sampling_params.json_schema",
    ),
    ("/api/chat", lambda schema: {"format": schema, "stream": False}, "format"),
]


@pytest.mark.parametrize(("path", "fields", "named"), TAKEN, ids=[name for *_, name in TAKEN])
@pytest.mark.parametrize("why", REFUSED, ids=["out of bounds", "no schema"])
def test_a_schema_that_cannot_be_held_to_is_refused_by_its_field_and_the_reason(
    site: Any, path: str, fields: Callable[[Any], dict[str, Any]], named: str, why: str
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    if path == "/v1/messages":
        body["max_tokens"] = 9
    reply = site.send("POST", path, body | fields(REFUSED[why]))

    assert reply.status == 400
    said = json.dumps(reply.json)
    assert why in said
    assert f"{named}: " in said
