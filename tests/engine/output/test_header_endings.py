"""Headers of Harmony, and answers that the prompt begins: nothing of their structure is text."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules, StopScope
from tests.engine.output.ended import ALL, BOTH, TAGS, opened, thinking
from tests.engine.output.test_families import ANALYSIS, FINAL, harmony
from tests.support.asking import scripted_answer
from tests.support.scripted import Stage


@pytest.mark.parametrize("most", range(1, 4))
def test_a_limit_inside_a_header_leaks_nothing_of_it(tmp_path: Path, most: int) -> None:
    answer = scripted_answer(harmony(tmp_path, [*ANALYSIS, *FINAL, "x"]), "go", max_tokens=most)
    assert (answer.text, answer.thinking) == ("", "")
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS


def test_eos_inside_a_header_leaks_nothing_of_it(tmp_path: Path) -> None:
    for script in (ANALYSIS[:2], [*ANALYSIS, *FINAL[:4]]):
        answer = scripted_answer(harmony(tmp_path, script), "go")
        assert (answer.text, answer.finished.stop.kind) == ("", StopKind.EOS)


@pytest.mark.parametrize("scope", StopScope)
@pytest.mark.parametrize("word", ["analysis", "assistant", "commentary", "final"])
def test_the_words_of_a_header_are_not_stops(tmp_path: Path, word: str, scope: StopScope) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    ids = tuple(stage.ids(word))
    answer = scripted_answer(stage, "go", rules=StopRules.of(word, token_ids=ids[:1], scope=scope))
    assert (answer.thinking, answer.text) == ("think END", "x")
    assert answer.finished.stop.kind is StopKind.EOS


def test_a_marker_is_a_stop_only_where_everything_is_searched(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    for scope, text in ((StopScope.TEXT, "x"), (BOTH, "x"), (ALL, "")):
        answer = scripted_answer(stage, "go", rules=StopRules.of("<|end|>", scope=scope))
        assert (answer.thinking, answer.text) == ("think END", text)


def test_the_tokens_of_the_header_count_with_the_thinking_that_it_opens(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    usage = scripted_answer(stage, "go").finished.usage
    assert usage.thinking_tokens == sum(len(stage.ids(piece)) for piece in ANALYSIS)


def prefilled(folder: Path, begun: str, script: Sequence[str | int], *eos: str) -> Stage:
    """Return a Harmony model whose prompt ends with what the answer began with."""
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}<|message|>user:{{ m.content }}<|end|>"
        "{% endfor %}" + begun + "<|go|>"
    )
    special = ["<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>"]
    stage = Stage(folder, {"go": script}, special=special, eos="<|return|>", template=template)
    for text in eos:
        stage.wrapper.add_eos_token(text)
    return stage


HEADER = "<|start|>assistant<|channel|>"


@pytest.mark.parametrize(
    ("begun", "script", "thought", "text"),
    [
        ("", ["yes"], "", "yes"),
        (f"{HEADER}final<|message|>Hel", ["lo END", " x"], "", "lo "),
        (f"{HEADER}analysis<|message|>so", ["hm END", "<|end|>", *FINAL, "yes"], "hm END", "yes"),
        (f"{HEADER}analysis", ["<|message|>", "hm", "<|end|>", *FINAL, "yes"], "hm", "yes"),
        (f"{HEADER}analysis<|message|>hm<|end|>", [*FINAL, "yes"], "", "yes"),
        (f"{HEADER}analysis<|message|>hm<|end|>", ["oh ", *FINAL, "yes"], "", "oh yes"),
    ],
    ids=["no header", "final", "analysis", "in a header", "after it", "text between"],
)
def test_an_answer_begins_where_the_prompt_leaves_it(
    tmp_path: Path, begun: str, script: list[str], thought: str, text: str
) -> None:
    answer = scripted_answer(prefilled(tmp_path, begun, script), "go", "END")
    assert (answer.thinking, answer.text) == (thought, text)


def test_a_call_that_the_prompt_began_is_a_call(tmp_path: Path) -> None:
    begun = f'{HEADER}commentary to=functions.get_weather<|message|>{{"city":'
    stage = prefilled(tmp_path, begun, [' "Paris"}', "<|call|>"], "<|call|>")
    answer = scripted_answer(stage, "go")
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})


def test_text_outside_of_messages_is_streamed_and_its_stops_fire_at_once(tmp_path: Path) -> None:
    stage = prefilled(tmp_path, "", ["one ", "END", " two", *FINAL, "x"])
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.usage.output_tokens) == ("one ", 2)


@pytest.mark.parametrize("words", [1, 100])
def test_thinking_that_the_prompt_began_continues_however_long_it_is(
    tmp_path: Path, words: int
) -> None:
    template = opened("<think>" + "so " * words)
    stage = thinking(tmp_path, ["hm", "</think>", "\n", "yes"], template=template)
    answer = scripted_answer(stage, "go")
    assert (answer.thinking, answer.text) == ("hm", "yes")


def test_a_tag_that_a_person_quotes_opens_nothing(tmp_path: Path) -> None:
    question = "what is <think>?"
    for number, template in enumerate(
        (opened(""), "{% for m in messages %}user:{{ m.content }}{% endfor %}:<|go|>")
    ):
        stage = Stage(tmp_path / str(number), {}, plain=TAGS, pieces=["yes"], template=template)
        stage.scripts = dict.fromkeys([question, question + ":"], stage.ids("yes"))
        answer = scripted_answer(stage, question)
        assert (answer.thinking, answer.text) == ("", "yes")
