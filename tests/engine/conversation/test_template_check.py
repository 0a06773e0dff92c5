"""What ``models check`` finds out about a chat template."""

import time
from collections.abc import Callable

import pytest

from engine.conversation import bounded_jinja
from engine.conversation.template import ChatTemplate
from engine.conversation.template_check import check_template
from tests.support.families.templates import TEMPLATES


@pytest.mark.parametrize("family", TEMPLATES)
def test_template_check_finds_every_conversation_rendered(
    family_templates: dict[str, ChatTemplate], family: str
) -> None:
    report = check_template(family_templates[family])
    assert {case.outcome for case in report.cases} <= {"as sent", "adapted"}, report


def test_template_check_names_adaptations_and_efforts(
    family_templates: dict[str, ChatTemplate],
) -> None:
    report = check_template(family_templates["qwen38"])
    outcomes = {case.conversation: case.outcome for case in report.cases}
    assert outcomes["a later system message"] == "adapted"
    assert outcomes["a call and its result"] == "as sent"
    assert report.efforts == ("low", "medium", "xhigh")
    assert any("system" in change for change in report.changes)


def test_template_check_names_the_text_that_closes_an_answer(
    family_templates: dict[str, ChatTemplate], template_of: Callable[[str], ChatTemplate]
) -> None:
    assert check_template(family_templates["qwen38"]).closing == "<|im_end|>"
    bare = template_of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    assert check_template(bare).closing_sentence.startswith("No text closes an answer")


def test_rules_of_a_slow_template_are_learnt_within_the_time_of_one_prompt(
    template_of: Callable[[str], ChatTemplate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_jinja, "MAX_RENDER_S", 0.5)
    slow = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    template = template_of("{% if messages|length > 1 %}" + slow + "{% endif %}{{ messages }}")
    begin_s = time.thread_time()
    template.rules(has_tools=False)
    assert time.thread_time() - begin_s < 3
