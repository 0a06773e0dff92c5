"""Channels of real model families, their tokenizers rebuilt small, through the real pipeline."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models.cache import KVCache

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.chat import Message, Tool
from engine.values.request import GenerationRequest
from tests.support.asking import loaded_engine, scripted_answer
from tests.support.scripted import TEMPLATE, Stage

# -- Harmony -----------------------------------------------------------------------------------

HARMONY: dict[str, Any] = {
    "special": [
        "<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>",
    ],
    "eos": "<|return|>",
    "template": (
        "{% for m in messages %}<|start|>{{ m.role }}:<|message|>user:{{ m.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|go|>{% endif %}"
    ),
}  # fmt: skip
ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "think END", "<|end|>"]
FINAL = ["<|start|>", "assistant", "<|channel|>", "final", "<|message|>"]
CALL = [
    "<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.get_weather ",
    "<|constrain|>", "json", "<|message|>", '{"city":', '"Paris"}', "<|call|>",
]  # fmt: skip


def harmony(folder: Path, script: list[str | int], *eos: str) -> Stage:
    stage = Stage(folder, {"go": script}, **HARMONY)
    for text in eos:
        stage.wrapper.add_eos_token(text)
    return stage


def test_harmony_channels_are_split_and_no_marker_leaks(tmp_path: Path) -> None:
    answer = scripted_answer(harmony(tmp_path, [*ANALYSIS, *FINAL, "Hello", " there"]), "go")
    assert (answer.thinking, answer.text) == ("think END", "Hello there")
    assert answer.finished.stop.kind is StopKind.EOS


def test_harmony_stops_fire_in_the_final_channel_only(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "so ", "EN", "D it", " goes"])
    answer = scripted_answer(stage, "go", "END", "final", "analysis")
    assert (answer.thinking, answer.text) == ("think END", "so ")
    assert answer.finished.stop.value == "END"


def test_harmony_stops_fire_in_analysis_if_the_scope_says_so(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    rules = StopRules.of("END", scope=StopScope.ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert (answer.thinking, answer.finished.stop.channel) == ("think ", Channel.THINKING)


def test_a_harmony_tool_call_ends_by_its_own_marker(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *CALL], "<|call|>")
    answer = scripted_answer(stage, "go")
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
    assert answer.text == ""


def test_a_harmony_call_cut_by_the_limit_is_the_limit(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*CALL[2:]], "<|call|>")
    answer = scripted_answer(stage, "go", max_tokens=8)
    assert (answer.tool_calls, answer.finished.stop.kind) == ((), StopKind.MAX_TOKENS)


def test_a_harmony_preamble_is_part_of_the_answer(tmp_path: Path) -> None:
    preamble = ["<|channel|>", "commentary", "<|message|>", "I will look.", "<|end|>"]
    answer = scripted_answer(harmony(tmp_path, [*preamble, *FINAL, "Done."]), "go")
    assert answer.text == "I will look.Done."


# -- reasoning tags ----------------------------------------------------------------------------


def test_reasoning_that_the_template_opened_starts_inside_it(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        "<think>\n<|go|>"
    )
    stage = Stage(
        tmp_path,
        {"go": ["hm END", "</think>", "\n\n", "yes", " END"]},
        plain=["<think>", "</think>"],
        template=template,
    )
    answer = scripted_answer(stage, "go", "END")
    assert (answer.thinking, answer.text) == ("hm END", "yes ")


def test_reasoning_that_the_template_closed_is_over(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        "<think>\n\n</think>\n\n<|go|>"
    )
    stage = Stage(tmp_path, {"go": ["yes"]}, plain=["<think>", "</think>"], template=template)
    answer = scripted_answer(stage, "go")
    assert (answer.thinking, answer.text) == ("", "yes")


def test_tags_of_several_tokens_are_found_in_the_text(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ["<|channel>", "thou", "ght", "\nhm", "<channel|>", "yes"]},
        plain=["<|channel>", "<channel|>"],
    )
    answer = scripted_answer(stage, "go")
    assert (answer.thinking, answer.text) == ("hm", "yes")


# -- tool calls --------------------------------------------------------------------------------


def tool_template(marker: str) -> str:
    # mlx-lm tells the format of calls from words in the template.
    return TEMPLATE + "{# " + marker + " #}"


DEEPSEEK_TAGS = [
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
]  # fmt: skip
FORMATS = {
    "json": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call> tool_call.name",
        ["<tool_call>", '{"name": "add", "arguments": {"a": 1, "b": "x"}}', "</tool_call>"],
    ),
    "pythonic": (
        ["<|tool_call_start|>", "<|tool_call_end|>"],
        "<|tool_call_start|>",
        ["<|tool_call_start|>", '[add(a=1, b="x")]', "<|tool_call_end|>"],
    ),
    "xml": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call>\\n<function=",
        [
            "<tool_call>",
            "\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n",
            "</function>\n",
            "</tool_call>",
        ],
    ),
    "open-ended": (
        ["[TOOL_CALLS]", "[ARGS]"],
        "[TOOL_CALLS]",
        ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": 1, "b": "x"}'],
    ),
    "deepseek": (
        DEEPSEEK_TAGS,
        "",
        [
            "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function", "<｜tool▁sep｜>", "add",
            "\n```json\n", '{"a": 1, "b": "x"}', "\n```", "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ],
    ),
    "deepseek-short": (
        DEEPSEEK_TAGS,
        "",
        [
            "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "add", "<｜tool▁sep｜>",
            '{"a": 1, "b": "x"}', "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
        ],
    ),
    "phi": (
        ["<|tool_call|>", "<|/tool_call|>"],
        "",
        ["<|tool_call|>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]', "<|/tool_call|>"],
    ),
    "granite": (
        ["<|tool_call|>"],
        "",
        ["<|tool_call|>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]'],
    ),
    "nemotron": (
        ["<TOOLCALL>", "</TOOLCALL>"],
        "",
        ["<TOOLCALL>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]', "</TOOLCALL>"],
    ),
    "smollm": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call></tool_call>",
        ["<tool_call>", '\n{"name": "add", "arguments": {"a": 1, "b": "x"}}\n', "</tool_call>"],
    ),
    "command": (
        ["<|START_ACTION|>", "<|END_ACTION|>"],
        "",
        [
            "<|START_ACTION|>",
            '[{"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1, "b": "x"}}]',
            "<|END_ACTION|>",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("style", FORMATS)
def test_calls_of_each_style_are_parsed(tmp_path: Path, style: str) -> None:
    tags, marker, script = FORMATS[style]
    stage = Stage(
        tmp_path, {"go": ["Sure. ", *script]}, special=tags, template=tool_template(marker)
    )
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    answer = scripted_answer(stage, "go", tools=(Tool("add", "Adds.", schema),))
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": "x"})
    assert answer.text == "Sure. "
    assert answer.finished.stop.kind is StopKind.TOOL_CALL


def test_stops_in_scope_all_fire_inside_a_call(tmp_path: Path) -> None:
    tags, marker, script = FORMATS["json"]
    stage = Stage(tmp_path, {"go": script}, special=tags, template=tool_template(marker))
    rules = StopRules.of("arguments", scope=StopScope.ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert answer.finished.stop.kind is StopKind.STOP_STRING
    assert answer.finished.stop.channel is Channel.TOOL
    assert answer.finished.unfinished_tool_call == '{"name": "add", "'


# -- caches that cannot be trimmed ---------------------------------------------------------------


async def test_a_cache_that_cannot_be_trimmed_still_spares_the_next_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"one": ["a", "END", "b"], "two": ["c"]}, pieces=["a", "END", "b", "c"])

    class Untrimmable(KVCache):
        def is_trimmable(self) -> bool:
            return False

    stage.model.make_cache = lambda: [Untrimmable()]

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        first = await engine.generate(
            GenerationRequest((Message("user", "one"),), stops=StopRules.of("END"))
        )
        answer = await first.collect()
        assert answer.text == "a"
        again = (Message("user", "one"), Message("assistant", "a"), Message("user", "two"))
        second = await (await engine.generate(GenerationRequest(again))).collect()
        assert second.text == "c"
        # "…<|end|><|go|>" ends the first prompt; the second repeats all but the last of it.
        assert second.finished.usage.cached_tokens >= first.prompt_tokens - 2


# -- one module each ---------------------------------------------------------------------------


def test_the_engine_speaks_of_a_family_in_its_own_module_only() -> None:
    """Only the file format of saved runs, which older versions wrote, may name it as well."""
    root = Path(__file__).parents[3]
    saying = {
        file.relative_to(root).as_posix()
        for room in ("engine", "api", "ui", "app")
        for file in (root / room).rglob("*.py")
        if "harmony" in file.read_text(encoding="utf-8").lower()
    }
    assert saying == {"engine/output/families.py", "engine/recording/saved_run.py"}
