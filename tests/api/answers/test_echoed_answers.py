"""Whatever an answer contains, the next request may contain: its calls, thinking and texts.

Random answers of a scripted model, whole and cut by a limit, come back as vendors' clients send
them, behind a template that takes arguments only as mappings.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anthropic
import openai
import pytest

from tests.api.conftest import Site, acting
from tests.support.models.formats import FORMATS, SCHEMA
from tests.support.scripted import TEMPLATE, Stage

CASES = 12
# Takes arguments as Qwen3-Coder's template does.
STRICT = TEMPLATE.replace(
    "{{ m.content }}",
    "{{ m.content }}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments|items %}"
    "{{ k }}={{ v }}{% endfor %}{% endfor %}",
)
FRAGMENTS = {
    "json": [
        '{"name": "add", "arguments": {"a": 1, "b": "x"}}',
        '{"name": "run", "arguments": {"input": "ls"}}',
        '{"name": "mcp__ev__echo", "arguments": {"a": 1}}',
        '{"name": "add", "arguments": "text"}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "arguments": {"a": 1, "b": "x',
        '{"name": "add"}',
        '{"name": "unknown", "arguments": {}}',
        '{"name": "add", "arguments": {"b": "\\\\d \\ud83d"}}',
        "no JSON",
    ],
    "xml": [
        "<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n",
        "<function=add>\n<parameter=a>\nx\n</parameter>\n",
        "<function=run>\n<parameter=input>\nls\n",
        "<function=add>\n</function>\n",
        "<function=unknown>\n<parameter=a>\n1\n</parameter>\n</function>\n",
        "no function",
    ],
}
AROUND = ["<think>", "</think>", "<tool_call>", "</tool_call>", "why ", "Sure. ", "\n\n", "🚀"]


def _answer(form: str, number: int) -> list[str]:
    """Return the pieces of a random answer, in which calls mostly stand between their tags."""
    chosen = random.Random(number)
    pieces: list[str] = []
    for _ in range(chosen.randint(0, 4)):
        if chosen.random() < 0.4:
            pieces += ["<tool_call>", *_cut(chosen.choice(FRAGMENTS[form])), "</tool_call>"]
        elif chosen.random() < 0.3:
            pieces += ["<think>", "why ", *(["</think>"] if chosen.random() < 0.8 else [])]
        else:
            pieces += chosen.choice([*map(_cut, FRAGMENTS[form]), *([part] for part in AROUND)])
    return pieces


def _cut(text: str) -> list[str]:
    """Return a text in tokens, so that a limit ends an answer inside it."""
    return [text[start : start + 12] for start in range(0, len(text), 12)]


@pytest.fixture(scope="module", params=FRAGMENTS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    form: str = request.param
    tags, marker, _ = FORMATS[form]
    scripts: dict[str, Sequence[str | int]] = {
        f"case {number}": _answer(form, number) for number in range(CASES)
    }
    stage = Stage(
        tmp_path_factory.mktemp("echoing"),
        scripts,
        special=tags,
        plain=["<think>", "</think>"],
        template=f"{STRICT}{{# {marker} #}}",
    )
    with acting(stage) as (site, _):
        yield site


# -- the vendors' clients ----------------------------------------------------------------------
# Each asks with a history, and returns the history with the answer and what agents add to it.


Ask = Callable[[Any, list[Any], int | None, bool], list[Any]]


def _ask_messages(client: Any, turns: list[Any], limit: int | None, streamed: bool) -> list[Any]:
    tools = [
        {"name": name, "input_schema": SCHEMA, "eager_input_streaming": True}
        for name in ("add", "run", "mcp__ev__echo")
    ]
    asked: dict[str, Any] = {
        "model": "m",
        "max_tokens": limit or 500,
        "messages": turns,
        "tools": tools,
        "thinking": {"type": "adaptive"},
    }
    if streamed:
        with client.messages.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    content = message.model_dump(exclude_none=True)["content"]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "done", "is_error": True}
        for block in content
        if block["type"] == "tool_use"
    ]
    more = [*results, {"type": "text", "text": "Hi"}]
    return [*turns, {"role": "assistant", "content": content}, {"role": "user", "content": more}]


def _ask_responses(client: Any, items: list[Any], limit: int | None, streamed: bool) -> list[Any]:
    echo = {"type": "function", "name": "echo", "parameters": SCHEMA}
    asked: dict[str, Any] = {
        "model": "m",
        "max_output_tokens": limit or 500,
        "input": items,
        "tools": [
            {"type": "function", "name": "add", "parameters": SCHEMA},
            {"type": "custom", "name": "run"},
            {"type": "namespace", "name": "mcp__ev", "tools": [echo]},
        ],
        "include": ["reasoning.encrypted_content"],
    }
    if streamed:
        *_, last = client.responses.create(**asked, stream=True)
        output = last.model_dump(exclude_none=True)["response"]["output"]
    else:
        output = client.responses.create(**asked).model_dump(exclude_none=True)["output"]
    results = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "done"}
        for item in output
        if item["type"] in ("function_call", "custom_tool_call") and item["status"] == "completed"
    ]
    return [*items, *output, *results, {"role": "user", "content": "Hi"}]


def _ask_chat(client: Any, turns: list[Any], limit: int | None, streamed: bool) -> list[Any]:
    functions = [{"name": name, "parameters": SCHEMA} for name in ("add", "run", "mcp__ev__echo")]
    asked: dict[str, Any] = {
        "model": "m",
        "max_tokens": limit or 500,
        "messages": turns,
        "tools": [{"type": "function", "function": function} for function in functions],
    }
    if streamed:
        with client.chat.completions.stream(**asked) as stream:
            for _ in stream:
                pass
            message = stream.current_completion_snapshot.choices[0].message
    else:
        message = client.chat.completions.create(**asked).choices[0].message
    answer = message.model_dump(exclude_none=True)
    answer.pop("parsed", None)
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "done"}
        for call in answer.get("tool_calls", ())
    ]
    return [*turns, answer, *results, {"role": "user", "content": "Hi"}]


CLIENTS: dict[str, Ask] = {
    "messages": _ask_messages,
    "responses": _ask_responses,
    "chat": _ask_chat,
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", CLIENTS)
def test_answer_is_accepted_in_the_next_request(
    api: str,
    streamed: bool,
    anthropic_client: anthropic.Anthropic,
    openai_client: openai.OpenAI,
) -> None:
    ask, client = CLIENTS[api], anthropic_client if api == "messages" else openai_client
    for number in range(CASES):
        limit = number % 4 * 3 or None
        history = ask(client, [{"role": "user", "content": f"case {number}"}], limit, streamed)
        assert len(ask(client, history, 2, False)) > len(history), history
