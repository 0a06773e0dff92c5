"""A user's chat template is checked before a model has it."""

import time
from pathlib import Path

import pytest

from engine.conversation import bounded_jinja
from engine.engine import Engine
from engine.errors import InvalidTemplate
from engine.inference.template_preview import (
    SAMPLE_REQUEST,
    preview_template,
    validate_template,
)
from engine.library.template_files import chat_template
from engine.values.request import GenerationRequest, Message
from tests.support.asking import run

_TURNS = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


def test_sample_prompt_is_that_of_the_loaded_model(engine: Engine, demo_model_path: Path) -> None:
    source = chat_template(demo_model_path)
    prompt = preview_template(demo_model_path, source, SAMPLE_REQUEST).prompt
    assert prompt == run(engine.render_prompt(SAMPLE_REQUEST)).text
    parts = (
        "helpful assistant",
        "get_weather(city: string)",
        '{"city": "Lisbon"}',
        '"degrees": 21',
    )
    assert [part for part in parts if part not in prompt] == []


def test_prompt_has_the_special_tokens_of_the_folder(demo_model_path: Path) -> None:
    request = GenerationRequest(messages=(Message("user", "Hi"),))
    preview = preview_template(demo_model_path, _TURNS + "{{ eos_token }}", request)
    assert preview.prompt == "user: Hi\n<|im_end|>"


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("a\n\n{% if %}", 3, "Expected an expression"),
        ("{{ raise_exception('no') }}", 1, "it refuses this conversation: no"),
        (_TURNS + "{{ 1 / 0 }}", 2, "division by zero"),
        ("\n{{ ''.__class__.__mro__ }}", 2, "unsafe"),
        ("\n\n{{ 'a' * 99999999999 }}", 3, "tens of millions of characters"),
        ("{% for _ in range(10**9) %}{% endfor %}", 1, "Range too big"),
        ("Hello", None, "message is not in the prompt"),
        (" \n", None, "it is empty"),
    ],
)
def test_invalid_template_names_line_and_reason(
    demo_model_path: Path, source: str, line: int | None, reason: str
) -> None:
    with pytest.raises(InvalidTemplate, match=reason) as refusal:
        validate_template(demo_model_path, source)
    assert refusal.value.line == line


@pytest.mark.parametrize("source", [f"{{{{ {'not ' * 5000}1 }}}}", f"{{{{ {'9' * 5000} }}}}"])
def test_template_that_python_cannot_read_has_a_problem(source: str, demo_model_path: Path) -> None:
    assert preview_template(demo_model_path, source, SAMPLE_REQUEST).problem is not None


def test_refused_conversation_leaves_the_template_valid(demo_model_path: Path) -> None:
    source = _TURNS + "{% if tools %}{{ raise_exception('no tools') }}{% endif %}"
    report = validate_template(demo_model_path, source)
    outcomes = {case.conversation: case.outcome for case in report.cases}
    assert outcomes["a question"] == "as sent"
    assert outcomes["a call and its result"] == "refused"
    problem = preview_template(demo_model_path, source, SAMPLE_REQUEST).problem
    assert str(problem) == "line 2: it refuses this conversation: no tools"


def test_all_checks_of_a_template_take_as_long_as_one_prompt(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_jinja, "MAX_RENDER_S", 0.5)
    slow = "{% if messages|length > 1 %}{% for a in range(9999) %}{% for b in range(9999) %}"
    slow += "{% endfor %}{% endfor %}{% endif %}"
    begin_s = time.thread_time()
    with pytest.raises(InvalidTemplate, match="it takes more than"):
        validate_template(demo_model_path, _TURNS + slow)
    assert time.thread_time() - begin_s < 3
