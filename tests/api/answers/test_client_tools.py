"""Tools that are more than one function: namespaces, custom tools, and functions of the old form.

A scripted model calls them by the names that it is told; the vendor's own client reads the calls.
"""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from engine.engine import Engine
from engine.values.request import Message, ToolCall
from tests.api.conftest import Site, acting, serving
from tests.support.models.formats import FORMATS, tool_template
from tests.support.scripted import Stage

OPEN, CLOSE = "<tool_call>", "</tool_call>"
PATCH = '*** Begin\n+"é" \\ 🚀\n*** End'
SCRIPTS: dict[str, list[str]] = {
    "echo": [OPEN, '{"name": "mcp__ev__echo", ', '"arguments": {"text": "Hi"}}', CLOSE],
    "short": [OPEN, '{"name": "echo", "arguments": {"text": "Hi"}}', CLOSE],
    # The escapes are cut in the middle, one of them between the halves of a surrogate pair.
    "patch": [
        OPEN, '{"name": "apply_patch", "arguments": {"in', 'put": "*** Begin', "\\", 'n+\\"\\u00',
        'e9\\" \\', "\\ \\ud83d", '\\ude80\\n*** End"}}', CLOSE,
    ],
    "weather": [OPEN, '{"name": "weather", "arguments": {"city": "Oslo"}}', CLOSE],
    "cut": [OPEN, '{"name": "apply_patch", "arguments": {"input": "*** Beg', *["x"] * 9_000],
}  # fmt: skip
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ECHO = {"type": "function", "name": "echo", "description": "Echoes", "parameters": TEXT}
EV = {"type": "namespace", "name": "mcp__ev", "description": "Of ev", "tools": [ECHO]}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin" /.*/'}
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Patches", "format": GRAMMAR}
SEARCH = {"type": "web_search"}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    tags, marker, _ = FORMATS["json"]
    folder, template = tmp_path_factory.mktemp("calling"), tool_template(marker)
    with acting(Stage(folder, SCRIPTS, special=tags, template=template, context=9_500)) as (
        site,
        _,
    ):
        yield site


@pytest.fixture(scope="module")
def demo_site(engine: Engine) -> Iterator[Site]:
    with serving(engine) as site:
        yield site


def respond(openai_client: openai.OpenAI, is_streamed: bool, **asked: Any) -> tuple[Any, list[Any]]:
    if not is_streamed:
        return openai_client.responses.create(model="m", **asked), []
    events = list(openai_client.responses.create(model="m", stream=True, **asked))
    return events[-1].response, events  # type: ignore[union-attr]


@STREAMED
@pytest.mark.parametrize("prompt", ["echo", "short"])
def test_a_function_of_a_namespace_is_called_with_its_namespace(
    openai_client: openai.OpenAI,
    asked: list[Any],
    prompt: str,
    is_streamed: bool,
) -> None:
    answer, events = respond(openai_client, is_streamed, input=prompt, tools=[EV])
    [call] = answer.output

    assert [tool.name for tool in asked[0].tools] == ["mcp__ev__echo"]
    assert asked[0].tools[0].description == "Echoes\n\nOf ev"
    assert (call.type, call.name, call.namespace) == ("function_call", "echo", "mcp__ev")
    assert json.loads(call.arguments) == {"text": "Hi"}
    assert answer.tools[0].type == "namespace"
    items = [event.item for event in events if "output_item" in event.type]
    assert {(item.name, item.namespace) for item in items} <= {("echo", "mcp__ev")}
    assert bool(items) is is_streamed


# -- custom tools ------------------------------------------------------------------------------


@STREAMED
def test_a_custom_tool_is_called_with_its_text(
    openai_client: openai.OpenAI, asked: list[Any], is_streamed: bool
) -> None:
    answer, events = respond(openai_client, is_streamed, input="patch", tools=[CUSTOM])
    [call] = answer.output

    assert "start: " in asked[0].tools[0].description
    assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", PATCH)
    assert answer.tools[0].format.definition == GRAMMAR["definition"]
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    done = [e.input for e in events if e.type == "response.custom_tool_call_input.done"]
    assert "".join(deltas) == (PATCH if is_streamed else "")
    assert done == [PATCH] * is_streamed

    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done"}
    history = [{"role": "user", "content": "patch"}, call.model_dump(exclude_none=True), output]
    openai_client.responses.create(model="m", input=history, tools=[CUSTOM])  # type: ignore[arg-type, list-item]
    [made] = asked[1].messages[1].tool_calls
    assert (made.name, json.loads(made.arguments)) == ("apply_patch", {"input": PATCH})
    assert asked[1].messages[2].content == "Done"


def test_a_required_custom_call_is_held_to_its_regular_expression(demo_site: Site) -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "[0-9]{4}"}
    choice = {"type": "custom", "name": "apply_patch"}
    body = {"input": "Count to 3", "tools": [CUSTOM | {"format": form}], "tool_choice": choice}
    [call] = demo_site.send("POST", "/v1/responses", {"model": "m", **body}).json["output"]

    assert call["type"] == "custom_tool_call"
    assert len(call["input"]) == 4
    assert call["input"].isdecimal()


@STREAMED
def test_a_completion_calls_a_custom_tool_with_its_text(
    openai_client: openai.OpenAI, asked: list[Any], is_streamed: bool
) -> None:
    inner = {"name": "apply_patch", "format": {"type": "grammar", "grammar": GRAMMAR}}
    tool: Any = {"type": "custom", "custom": inner}
    turns: list[Any] = [{"role": "user", "content": "patch"}]
    made = openai_client.chat.completions.create(
        model="m", messages=turns, tools=[tool], stream=is_streamed
    )
    if is_streamed:
        deltas = [chunk.choices[0].delta for chunk in made]
        parts = [call for delta in deltas for call in delta.tool_calls or ()]
        text = "".join(part.model_dump()["custom"]["input"] for part in parts)
        call_id, kind, name = parts[0].id, parts[0].type, parts[0].model_dump()["custom"]["name"]
        assert deltas[0].content is None
    else:
        [call] = made.choices[0].message.tool_calls
        call_id, kind, name, text = call.id, call.type, call.custom.name, call.custom.input

    assert (kind, name, text) == ("custom", "apply_patch", PATCH)
    whole = {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}
    result = {"role": "tool", "tool_call_id": call_id, "content": "Done"}
    turns += [{"role": "assistant", "tool_calls": [whole]}, result]
    openai_client.chat.completions.create(model="m", messages=turns, tools=[tool])
    assert json.loads(asked[1].messages[1].tool_calls[0].arguments) == {"input": PATCH}
    assert asked[1].messages[2].name == "apply_patch"


# -- functions of the old form -----------------------------------------------------------------


@STREAMED
def test_a_function_of_the_old_form_is_called_in_the_old_form(
    openai_client: openai.OpenAI, asked: list[Any], is_streamed: bool
) -> None:
    functions: Any = [{"name": "weather", "parameters": TEXT}]
    turns: list[Any] = [{"role": "user", "content": "weather"}]
    made = openai_client.chat.completions.create(
        model="m", messages=turns, functions=functions, stream=is_streamed
    )
    if is_streamed:
        chunks = [chunk.choices[0] for chunk in made]
        parts = [one.delta.function_call for one in chunks if one.delta.function_call]
        name, arguments = parts[0].name, "".join(part.arguments for part in parts)
        reason = chunks[-1].finish_reason
        assert not any(one.delta.tool_calls for one in chunks)
    else:
        choice = made.choices[0]
        assert choice.message.tool_calls is None
        name, arguments = choice.message.function_call.name, choice.message.function_call.arguments
        reason = choice.finish_reason

    assert (name, json.loads(arguments), reason) == ("weather", {"city": "Oslo"}, "function_call")
    called = {"name": name, "arguments": arguments}
    turns += [
        {"role": "assistant", "content": None, "function_call": called},
        {"role": "function", "name": "weather", "content": "Rain"},
    ]
    openai_client.chat.completions.create(model="m", messages=turns, functions=functions)
    assert asked[1].messages[1:] == (
        Message("assistant", "", tool_calls=(ToolCall("call_1", "weather", arguments),)),
        Message("tool", "Rain", tool_call_id="call_1", name="weather"),
    )


# -- tools that are left out -------------------------------------------------------------------

TURNS = [{"role": "user", "content": "?"}]
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": TEXT}}
OFFERED: list[tuple[str, dict[str, Any], str]] = [
    (
        "/v1/responses",
        {"input": "?", "tools": [SEARCH, SEARCH, ECHO, {"type": "image_generation"}]},
        "web_search, image_generation",
    ),
    (
        "/v1/responses",
        {"input": "?", "tools": [EV | {"tools": [ECHO, {"type": "tool_search"}]}]},
        "tool_search",
    ),
    (
        "/v1/responses/input_tokens",
        {"input": "?", "tools": [SEARCH, {"type": "a\r\nb: c"}]},
        "web_search, unknown",
    ),
    ("/v1/chat/completions", {"messages": TURNS, "tools": [FUNCTION, SEARCH]}, "web_search"),
    (
        "/v1/messages",
        {
            "messages": TURNS,
            "max_tokens": 5,
            "tools": [
                {"type": "web_search_20250305", "name": "web_search"},
                {"type": "bash_20250124", "name": "bash"},
                {"name": "weather", "input_schema": TEXT},
            ],
        },
        "web_search_20250305",
    ),
    ("/api/chat", {"messages": TURNS, "tools": [FUNCTION, SEARCH], "stream": False}, "web_search"),
    ("/v1/messages", {"messages": TURNS, "max_tokens": 8, "tools": [FUNCTION]}, "function"),
]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("path", "body", "named"), OFFERED)
def test_tools_that_do_not_run_here_are_left_out_and_named_in_a_header(
    site: Site, path: str, body: dict[str, Any], named: str, is_streamed: bool
) -> None:
    reply = site.send("POST", path, {"model": "m", **body, "stream": is_streamed})

    assert reply.status == 200
    assert reply.headers["x-fullstop-tools-left-out"] == named


def test_the_header_of_tools_that_are_left_out_has_a_limited_length(site: Site) -> None:
    tools = [{"type": f"search_{number:050}"} for number in range(200)]
    body = {"model": "m", "input": "Hi", "max_output_tokens": 4, "tools": tools}
    reply = site.send("POST", "/v1/responses", body)
    assert reply.status == 200
    assert len(reply.headers["x-fullstop-tools-left-out"]) < 2_100
