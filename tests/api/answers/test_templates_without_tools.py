"""A model whose template has no tools is asked for a forced call in words; others are named."""

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from tests.api.conftest import Site, serving

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["place"],
}
TURNS = [{"role": "user", "content": "Hi"}]
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
# For each route: a request with a tool, and the choices that require a call of it.
ASKED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "/v1/chat/completions": (
        {"messages": TURNS, "tools": [FUNCTION], "max_tokens": 3},
        ["required", {"type": "function", "function": {"name": "look"}}],
    ),
    "/v1/responses": (
        {
            "input": "Hi",
            "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
            "max_output_tokens": 3,
        },
        ["required", {"type": "function", "name": "look"}],
    ),
    "/v1/messages": (
        {
            "messages": TURNS,
            "tools": [{"name": "look", "input_schema": SCHEMA}],
            "max_tokens": 3,
        },
        [{"type": "any"}, {"type": "tool", "name": "look"}],
    ),
    "/api/chat": (
        {"messages": TURNS, "tools": [FUNCTION], "options": {"num_predict": 3}},
        [],
    ),
}
HEADER = "x-fullstop-tools-left-out"


@pytest.fixture(scope="module")
def folder(demo_model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "toolless"
    shutil.copytree(demo_model_path, made)
    for file in made.glob("chat_template*"):
        file.unlink()
    config = made / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": TEMPLATE}))
    return made


@pytest.fixture(scope="module")
def toolless(folder: Path) -> Iterator[Site]:
    with closing(Engine()) as engine:
        asyncio.run(engine.load(folder))
        with serving(engine) as site:
            yield site


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", [path for path, (_, choices) in ASKED.items() if choices])
def test_a_required_call_is_held_to_a_grammar(toolless: Site, path: str, is_streamed: bool) -> None:
    body, choices = ASKED[path]
    limit = next(name for name in body if "tokens" in name)
    for choice in choices:
        asked = {**body, "tool_choice": choice, limit: 90, "stream": is_streamed}
        reply = toolless.send("POST", path, asked)
        assert reply.status == 200
        assert HEADER not in reply.headers
        said = reply.body.decode().replace("\\", "")
        assert '"name":"look"' in said.replace(" ", "")
        if not is_streamed:
            assert re.search(r'"place": ?[0-9]\}', said)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ASKED)
def test_a_header_says_that_the_tools_were_left_out(
    toolless: Site, path: str, is_streamed: bool
) -> None:
    body, _ = ASKED[path]
    reply = toolless.send("POST", path, {**body, "stream": is_streamed})
    assert reply.status == 200
    assert reply.headers[HEADER] == "function"
    without = {**body, "tools": [], "stream": is_streamed}
    assert HEADER not in toolless.send("POST", path, without).headers
