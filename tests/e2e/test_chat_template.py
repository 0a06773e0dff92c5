"""``--chat-template``: a user's chat template in place of the model's own."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import read_json

pytestmark = pytest.mark.long

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|endoftext|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\\n' }}"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.jinja"
    path.write_text(TEMPLATE)
    return path


def test_served_prompts_and_facts_have_the_template(serve: Callable[..., Any], file: Path) -> None:
    server = serve("--port", "0", "--chat-template", str(file))
    url = server.wait_until_ready()
    turns = [{"role": "user", "content": "Hi"}]
    prompt = read_json(f"{url}/apply-template", {"messages": turns})["prompt"]
    assert prompt == "<|im_start|>user\nHi<|endoftext|>\n<|im_start|>assistant\n"
    assert read_json(f"{url}/props")["chat_template"] == TEMPLATE
    assert read_json(f"{url}/api/show", {"model": "demo-model"})["template"] == TEMPLATE
    [model] = read_json(f"{url}/v1/models")["data"]
    assert model["has_user_template"] is True
    answer = read_json(f"{url}/v1/chat/completions", {"messages": turns, "max_tokens": 3})
    assert answer["usage"]["prompt_tokens"] > 0
    assert server.end() == 0
    assert "your chat template" in server.told


@pytest.mark.parametrize(
    "command", [("serve", "--port", "0"), ("ask", "Hi"), ("run", "demo-model", "Hi")]
)
def test_invalid_template_is_refused_with_file_line_and_reason(
    program: Callable[..., subprocess.CompletedProcess[str]], file: Path, command: tuple[str, ...]
) -> None:
    file.write_text("a\n\n{% if %}")
    ended = program(*command, "--chat-template", str(file))
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"fullstop: --chat-template: {file}: line 3: Expected an expr")
    assert ended.stderr.count("\n") == 1
