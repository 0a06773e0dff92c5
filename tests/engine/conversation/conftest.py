"""Chat templates as the engine applies them, from their Jinja texts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlx_lm.tokenizer_utils import load

from engine.conversation.template import ChatTemplate
from engine.inference.text import chat_template
from tests.support.scripted import write_tokenizer


@pytest.fixture
def template_of(tmp_path: Path) -> Callable[[str], ChatTemplate]:
    """Return the chat template with a Jinja text."""

    def build(source: str) -> ChatTemplate:
        write_tokenizer(tmp_path, template=source)
        return chat_template(load(tmp_path))

    return build
