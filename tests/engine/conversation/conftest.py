"""Chat templates as the engine applies them, from their Jinja texts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlx_lm.tokenizer_utils import load

from engine.conversation.template import ChatTemplate
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import chat_template
from engine.inference.transformers_internals import bound_templates
from tests.support.families.templates import TEMPLATES
from tests.support.scripted import write_tokenizer


@pytest.fixture
def template_of(tmp_path: Path) -> Callable[[str], ChatTemplate]:
    """Return the chat template with a Jinja text."""

    bound_templates()

    def build(source: str) -> ChatTemplate:
        write_tokenizer(tmp_path, template=source)
        return chat_template(load(tmp_path))

    return build


@pytest.fixture(scope="session")
def family_templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ChatTemplate]:
    """The templates of all families, so that what they take is learnt once."""
    found = {}
    for name, source in TEMPLATES.items():
        folder = tmp_path_factory.mktemp(name)
        write_tokenizer(folder, template=source)
        tokenizer = load(folder)
        inner_tokenizer(tokenizer).bos_token = "<|start|>"
        found[name] = chat_template(tokenizer)
    return found
