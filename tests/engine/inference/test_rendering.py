"""Prompts as a model's template and tokenizer make them, and what goes wrong there."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.inference import mlx_backend
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import render
from engine.values.request import GenerationRequest, Message
from tests.support.asking import ask, run
from tests.support.scripted import write_tokenizer


@pytest.fixture
def refused(engine: Engine, demo_model_path: Path) -> Callable[[Any], str]:
    """Return the reason with which a request is refused whose template does something."""

    def refuse(template: Any) -> str:
        tokenizer = load(demo_model_path)
        if isinstance(template, str):
            inner_tokenizer(tokenizer).chat_template = template
        else:
            inner_tokenizer(tokenizer).apply_chat_template = template
        assert engine.model is not None
        request = GenerationRequest(messages=(Message("user", "Hi"),))
        with pytest.raises(InvalidRequest) as refusal:
            render(tokenizer, request, engine.model)
        assert refusal.value.field == "messages"
        return refusal.value.reason

    return refuse


def test_what_a_template_says_to_its_users_reaches_them_as_it_is(
    refused: Callable[[Any], str],
) -> None:
    said = "Roles must alternate: user/assistant, see /docs/of the/roles"
    told = refused("{{ raise_exception('" + said + "') }}")
    assert told == f"the model's chat template refused: {said}"


@pytest.mark.parametrize(
    "template",
    ["{{ messages[0].tools.name }}", "{% if %}", "{{ 1 / 0 }}", "{{ ''.__class__.__mro__ }}"],
)
def test_a_template_that_fails_names_the_model_without_a_traceback(
    refused: Callable[[Any], str], engine: Engine, template: str
) -> None:
    assert engine.model is not None
    told = refused(template)
    assert told.startswith(f"the chat template of {engine.model.id} failed: ")
    assert "Traceback" not in told
    assert "\n" not in told


class PanicException(BaseException):
    """As Rust's panics reach Python: no ``Exception``."""


def test_a_text_at_which_the_tokenizer_panics_is_refused_and_the_model_is_named(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: Any) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value: StackOverflow")

    with monkeypatch.context() as patch:
        patch.setattr(mlx_backend, "render", panic)
        with pytest.raises(InvalidRequest, match=r"the tokenizer of .+ cannot read") as refusal:
            run(ask(engine, "Hi"))
    assert refusal.value.field == "messages"
    assert engine.model is not None
    assert engine.model.id in refusal.value.reason
    assert run(ask(engine, "Hi", max_tokens=2)).finished.usage.output_tokens > 0


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
    model: Any = SimpleNamespace(
        id="m", context_length=1000, longest_token_bytes=None, vocabulary_size=1 << 20
    )
    text = tokenizer.decode(render(tokenizer, request, model)[0])
    assert text == f"<|start|>user:q<|end|><|start|>assistant:{begun.lstrip()}"
