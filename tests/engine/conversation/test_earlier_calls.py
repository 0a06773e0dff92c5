"""The next prompt has the calls of earlier turns and their results, whatever a template wants.

The templates here are written for these tests, after what templates of models ask for.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load

from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import render
from engine.values.request import GenerationRequest, Message, Tool, ToolCall
from tests.support.scripted import write_tokenizer

TOOL = Tool("find", "Finds.", {"type": "object", "properties": {"place": {"type": "string"}}})
CALLS = (
    ToolCall("toolu_aaaaaaaaaaaaaaaaaaaaaaaa", "find", '{"place":"Oslo"}'),
    ToolCall("toolu_bbbbbbbbbbbbbbbbbbbbbbbb", "search", '{"place":"Rome"}'),
)
RESULTS = tuple(
    Message("tool", text, tool_call_id=call.id)
    for text, call in zip(("RAIN", "SUN"), CALLS, strict=True)
)
TALK = (
    Message("user", "go"),
    Message("assistant", "", tool_calls=CALLS),
    *RESULTS,
    Message("assistant", "Both."),
    Message("user", "and now?"),
)
SHOWN = ("find", "Oslo", "search", "Rome", "RAIN", "SUN", "Both.", "and now?")

_TURN = "<|start|>{{ m.role }}:"
_ANSWER = (
    "{% if m.role == 'assistant' and not m.tool_calls %}"
    + _TURN
    + "{{ m.content }}<|end|>{% endif %}"
)
_OTHERS = "{% if m.role in ['user', 'tool'] %}" + _TURN + "{{ m.content }}<|end|>{% endif %}"


def _template(calls: str, others: str = _OTHERS, answer: str = _ANSWER) -> str:
    return (
        "{% for m in messages %}" + calls + answer + others + "{% endfor %}"
        "{% if add_generation_prompt %}<|go|>{% endif %}"
    )


_EACH = "{% for call in m.tool_calls %}[{{ call.function.name }} ARGS]{% endfor %}"


def _with(arguments: str) -> str:
    return "{% if m.tool_calls %}" + _EACH.replace("ARGS", arguments) + "{% endif %}"


# The call is shown in place of a content, whose arguments are text.
NONE = _template(
    "{% if m.role == 'assistant' and m.content is none %}"
    + _EACH.replace("ARGS", "{{ 'json ' + call.function.arguments }}")
    + "{% endif %}",
    answer="{% if m.role == 'assistant' and m.content is not none %}"
    + _TURN
    + "{{ m.content }}<|end|>"
    "{% endif %}",
)
TEXT = _template(_with("{{ '' + call.function.arguments }}"))
# Kimi K2 is shown calls and results by ids: the tool's name, and a number that rises.
KIMI = (
    "{% for m in messages %}{% if m.role == 'tool' %}<|system|>{{ m.name or m.role }}<|middle|>"
    "## Return of {{ m.tool_call_id }}\n{{ m.content }}{% else %}"
    "<|{{ m.role }}|>{{ m.role }}<|middle|>{{ m.content or '' }}{% if m.tool_calls %}"
    "<|section|>{% for call in m.tool_calls %}<|call|>{{ call.id }}<|argument|>"
    "{% if call.function.arguments is string %}{{ call.function.arguments }}"
    "{% else %}{{ call.function.arguments | tojson }}{% endif %}<|end of call|>"
    "{% endfor %}<|end of section|>{% endif %}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>assistant<|middle|>{% endif %}"
)
ONE = _template(
    "{% if m.tool_calls and m.tool_calls | length > 1 %}"
    "{{ raise_exception('one call') }}{% endif %}" + _with("{{ call.function.arguments | tojson }}")
)
ONLY_RESULTS = _template("{% if m.tool_calls %}" + _TURN + "{{ m.content }}<|end|>{% endif %}")
SHAPES = {
    "no content and text": NONE,
    "text": TEXT,
    "Kimi's ids": KIMI,
    "one call": ONE,
    "results only": ONLY_RESULTS,
}


def tokenizer_of(folder: Path, template: str) -> Any:
    write_tokenizer(folder, template=template)
    return load(folder)


def prompt(tokenizer: Any, messages: tuple[Message, ...], *tools: Tool) -> str:
    model: Any = SimpleNamespace(
        id="m", context_length=4000, longest_token_bytes=None, vocabulary_size=1 << 20
    )
    request = GenerationRequest(messages=messages, tools=tools)
    return str(tokenizer.decode(render(tokenizer, request, model)[0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_and_results_are_in_the_next_turns_prompt(tmp_path: Path, shape: str) -> None:
    text = prompt(tokenizer_of(tmp_path, SHAPES[shape]), TALK, TOOL)
    missing = [part for part in SHOWN if part not in text]
    assert not missing, text
    places = [text.index(part) for part in ("go", "Oslo", "RAIN", "Both.", "and now?")]
    assert places == sorted(places), text


def test_kimi_calls_are_numbered_over_the_conversation(tmp_path: Path) -> None:
    again = ToolCall("toolu_cccccccccccccccccccccccc", "find", '{"place":"Bonn"}')
    later = (
        Message("assistant", "", tool_calls=(again,)),
        Message("tool", "FOG", tool_call_id=again.id),
    )
    # Clients may send results in any order.
    talk = (*TALK[:2], *reversed(RESULTS), *TALK[4:], *later)
    text = prompt(tokenizer_of(tmp_path, KIMI), talk, TOOL)
    for number, (call, said) in enumerate(
        zip((*CALLS, again), ("RAIN", "SUN", "FOG"), strict=True)
    ):
        name, place = f"functions.{call.name}:{number}", json.loads(call.arguments)["place"]
        shown = f'<|call|>{name}<|argument|>{{"place": "{place}"}}<|end of call|>'
        assert shown in text
        assert f"<|system|>{call.name}<|middle|>## Return of {name}\n{said}<|end|>" in text


def test_a_template_with_a_version_for_tools_is_asked_for_that(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(tmp_path, NONE)
    inner_tokenizer(tokenizer).chat_template = {"default": ONLY_RESULTS, "tool_use": NONE}
    assert "[find json" in prompt(tokenizer, TALK, TOOL)
