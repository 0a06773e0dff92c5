"""Reasoning efforts and other options of a chat template."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.conversation.template import RESERVED_OPTIONS, ChatTemplate
from engine.errors import InvalidRequest
from engine.values.request import Effort, GenerationRequest, Message, Tool

TALK = (Message("user", "Hi"),)
TOOL = Tool("find", "Finds.", {"type": "object", "properties": {}})
_END = "{{ messages[0].content }}"
# After the rules of real templates; the words are theirs.
QWEN38 = (
    "{% if enable_thinking is undefined or enable_thinking is true %}"
    "{% set resolved = reasoning_effort|default('xhigh') %}"
    "{% if resolved not in ('xhigh', 'medium', 'low') %}{{ raise_exception('no such effort') }}"
    "{% endif %}effort={{ resolved }}{% else %}no thinking{% endif %} " + _END
)
GPT_OSS = (
    "{% macro head() %}{% if reasoning_effort is not defined %}"
    "{% set reasoning_effort = 'medium' %}{% endif %}effort={{ reasoning_effort }}{% endmacro %}"
    "{{ head() }} " + _END
)
GLM52 = (
    "{% set found = 'high' if reasoning_effort is defined and reasoning_effort == 'high' "
    "else 'max' %}effort={{ found }} " + _END
)
COHERE = (
    "{% set thinks = false if reasoning_effort is defined and reasoning_effort|lower == 'none' "
    "else true %}effort={{ thinks }} " + _END
)
OWN_WORDS = "{% if reasoning_effort == 'deep' %}effort=deep{% endif %} " + _END
PLAIN = "{{ messages[0].content }}{% if enable_thinking %}{% endif %}"
Build = Callable[[str], ChatTemplate]


def render(template: ChatTemplate, **fields: Any) -> str:
    return str(template.render(GenerationRequest(messages=TALK, **fields), "model")[0])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (QWEN38, ("low", "medium", "xhigh")),
        (GPT_OSS, ("low", "medium", "high")),
        (GLM52, ("high", "max")),
        (COHERE, ("none",)),
        (OWN_WORDS, ()),
        (PLAIN, ()),
        ("{{ broken", ()),
    ],
)
def test_efforts_are_found_in_the_template(
    template_of: Build, source: str, words: tuple[str, ...]
) -> None:
    assert template_of(source).effort_names == words


@pytest.mark.parametrize(
    ("source", "wish", "word"),
    [
        (QWEN38, Effort.MINIMAL, "low"),
        (QWEN38, Effort.MEDIUM, "medium"),
        (QWEN38, Effort.HIGH, "xhigh"),
        (QWEN38, Effort.XHIGH, "xhigh"),
        (QWEN38, Effort.MAX, "xhigh"),
        (GPT_OSS, Effort.XHIGH, "high"),
        (GPT_OSS, Effort.NONE, "low"),
        (GLM52, Effort.LOW, "high"),
        (GLM52, Effort.XHIGH, "max"),
        (COHERE, Effort.LOW, "True"),
        (COHERE, Effort.NONE, "False"),
    ],
)
def test_effort_becomes_the_nearest_word_of_the_template(
    template_of: Build, source: str, wish: Effort, word: str
) -> None:
    assert f"effort={word} Hi" in render(template_of(source), effort=wish)


def test_word_of_the_template_is_used_as_it_is(template_of: Build) -> None:
    template = template_of(OWN_WORDS)
    assert "effort=deep" not in render(template, effort=Effort.HIGH)
    options = {"reasoning_effort": "deep"}
    assert "effort=deep" in render(template, effort=Effort.HIGH, template_options=options)


@pytest.mark.parametrize("effort", [None, Effort.HIGH])
def test_thinking_off_renders_where_effort_words_raise(
    template_of: Build, effort: Effort | None
) -> None:
    assert "no thinking" in render(template_of(QWEN38), thinking=False, effort=effort)
    assert "effort=low" in render(template_of(GPT_OSS), thinking=False, effort=effort)


def test_every_template_option_reaches_the_template(template_of: Build) -> None:
    template = template_of("{{ flag }}-{{ number + 1 }}-{{ nested.key }} {{ messages[0].content }}")
    options = {"flag": "on", "number": 2, "nested": {"key": "deep"}}
    assert render(template, template_options=options) == "on-3-deep Hi"


@pytest.mark.parametrize("name", sorted(RESERVED_OPTIONS))
def test_reserved_option_is_refused_by_name(template_of: Build, name: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        render(template_of(PLAIN), template_options={name: "x"})
    assert refusal.value.field == f"chat_template_kwargs.{name}"


def test_unknown_options_are_named_as_not_applied(template_of: Build) -> None:
    options = {"flag": 1, "other": 2, "reasoning_effort": "high", "enable_thinking": True}
    request = GenerationRequest(messages=TALK, template_options=options)
    found = template_of("{{ flag }}" + PLAIN).render(request, "model")
    assert set(found[1]) == {
        "chat_template_kwargs.other",
        "chat_template_kwargs.reasoning_effort",
    }


def test_option_of_a_wrong_type_is_named(template_of: Build) -> None:
    template = template_of("{{ flag }}{{ 1 + number|default(0) }}" + PLAIN)
    # Many options without effect cost no rendering each.
    unknown = {f"x{number}": 0 for number in range(20_000)}
    began_s = time.thread_time()
    with pytest.raises(InvalidRequest) as refusal:
        render(template, template_options={**unknown, "flag": "on", "number": "two"})
    assert refusal.value.field == "chat_template_kwargs.number"
    assert time.thread_time() - began_s < 2


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, False),
        ({"tools": (TOOL,)}, True),
        ({"tools": (TOOL,), "template_options": {"preserve_thinking": False}}, False),
        ({"template_options": {"preserve_thinking": True}}, True),
    ],
)
def test_thinking_is_preserved_for_agents(
    template_of: Build, fields: dict[str, Any], kept: bool
) -> None:
    template = template_of("{{ tools|length if tools }}{{ preserve_thinking is true }}" + PLAIN)
    assert str(kept) in render(template, **fields)
