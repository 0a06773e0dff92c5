"""The prompt of an answer that goes on ends exactly where the answer's beginning does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load

from engine.inference.text import render
from engine.values.chat import Message
from engine.values.request import GenerationRequest
from tests.support.scripted import write_tokenizer

TRIMMING = (
    "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|go|>{% endif %}"
)


@pytest.mark.parametrize("begun", ["1 2\n6 ", "a\n\n", " x\n", "a b", "\n"])
def test_white_space_at_its_end_stays_although_the_template_trims(
    tmp_path: Path, begun: str
) -> None:
    write_tokenizer(tmp_path, template=TRIMMING)
    tokenizer = load(tmp_path)
    request = GenerationRequest(messages=(Message("user", "q "), Message("assistant", begun)))
    model: Any = SimpleNamespace(id="m", context_length=1000, longest_token_bytes=None)
    text = tokenizer.decode(render(tokenizer, request, model))
    assert text == f"<|start|>user:q<|end|><|start|>assistant:{begun.lstrip()}"
