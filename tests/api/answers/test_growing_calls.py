"""Tool calls of a scripted model in streams, as the vendors' own clients read them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.api.conftest import Site, acting
from tests.support.models.formats import FORMATS, tool_template
from tests.support.scripted import Stage

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HEAD = '{"name": "add", "arguments": {"a": 1, "b": "'
GIVEN = {"a": 1, "b": 'é "x" 🚀'}
PIECES = [
    OPEN,
    '{"na',
    'me": "add", "arg',
    'uments": {"a":1,',
    '"b": "é \\',
    '"x',
    '\\" 🚀"}',
    "}",
    CLOSE,
]
SCRIPTS: dict[str, list[str]] = {
    "one": ["Sure. ", *PIECES],
    "two": [*PIECES, "\n", *PIECES],
    "long": [OPEN, HEAD, *["word "] * 20_000],
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
FUNCTION = {"name": "add", "parameters": SCHEMA}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    tags, marker, _ = FORMATS["json"]
    folder, template = tmp_path_factory.mktemp("calling"), tool_template(marker)
    options: dict[str, Any] = {"special": tags, "template": template, "context": 50_000}
    with acting(Stage(folder, SCRIPTS, step_s=0.001, **options)) as (site, _):
        yield site


@pytest.fixture
def messages(anthropic_client: anthropic.Anthropic) -> anthropic.resources.Messages:
    return anthropic_client.messages


def as_message(prompt: str, **more: Any) -> dict[str, Any]:
    tool = {"name": "add", "input_schema": SCHEMA, "eager_input_streaming": True}
    turns = [{"role": "user", "content": prompt}]
    return {"model": "m", "max_tokens": 20_000, "messages": turns, "tools": [tool], **more}


def as_chat(prompt: str, **more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": FUNCTION}]
    return {"model": "m", "messages": [{"role": "user", "content": prompt}], "tools": tools, **more}


def as_response(prompt: str, **more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "strict": False, **FUNCTION}]
    return {"model": "m", "input": prompt, "tools": tools, **more}


def without_ids(items: Iterable[Any]) -> list[dict[str, Any]]:
    names = ("type", "text", "name", "input", "arguments", "status")
    return [{name: getattr(item, name, None) for name in names} for item in items]


@pytest.mark.parametrize(("prompt", "count"), [("one", 1), ("two", 2)])
def test_a_streamed_response_has_the_same_calls_as_a_whole_one(
    openai_client: openai.OpenAI, prompt: str, count: int
) -> None:
    whole = openai_client.responses.create(**as_response(prompt))
    done: list[str] = []
    with openai_client.responses.stream(**as_response(prompt)) as stream:
        for event in stream:
            if event.type == "response.function_call_arguments.delta":
                snapshot = event.snapshot
            elif event.type == "response.function_call_arguments.done":
                assert event.arguments == snapshot
                done.append(event.arguments)
        streamed = stream.get_final_response()

    assert [json.loads(text) for text in done] == [GIVEN] * count
    assert streamed.status == whole.status == "completed"
    assert [item.type for item in streamed.output].count("function_call") == count
    assert without_ids(streamed.output) == without_ids(whole.output)


def test_a_call_cut_by_the_limit_stays_incomplete_in_every_stream(
    messages: anthropic.resources.Messages, openai_client: openai.OpenAI
) -> None:
    with messages.stream(**as_message("long", max_tokens=20)) as stream:
        message = stream.get_final_message()
    chunks = list(
        openai_client.chat.completions.create(**as_chat("long", max_tokens=20), stream=True)
    )
    with openai_client.responses.stream(**as_response("long", max_output_tokens=20)) as events:
        response = list(events)[-1].response
    [call] = message.content
    assert (call.type, call.name, message.stop_reason) == ("tool_use", "add", "max_tokens")
    deltas = [d for chunk in chunks for d in chunk.choices[0].delta.tool_calls or ()]
    arguments = "".join(delta.function.arguments for delta in deltas)
    assert arguments.startswith('{"a": 1, "b": "word ')
    assert not arguments.endswith("}")
    assert chunks[-1].choices[0].finish_reason == "length"
    [item] = response.output
    assert (response.status, item.status, item.arguments) == ("incomplete", "incomplete", arguments)


def test_arguments_arrive_while_the_model_is_writing_them(
    site: Site, messages: anthropic.resources.Messages, openai_client: openai.OpenAI
) -> None:
    with messages.stream(**as_message("long")) as stream:
        text = next(event.partial_json for event in stream if event.type == "input_json")
        assert '{"a": 1, "b": "'.startswith(text[:15])
        assert site.engine.status.running == 1
    with openai_client.chat.completions.create(**as_chat("long"), stream=True) as chunks:
        deltas = (delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or ())
        assert next(deltas).function.name == "add"
        assert next(deltas).function.arguments
        assert site.engine.status.running >= 1
    with openai_client.responses.create(**as_response("long"), stream=True) as events:
        kinds = (event.type for event in events)
        assert "response.function_call_arguments.delta" in kinds
        assert site.engine.status.running >= 1
