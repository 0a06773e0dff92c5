"""Tags of several tokens, and what else ends an answer on the real pipeline.

What the contract says of single models is in ``tests.engine.contract.test_reference``.
"""

from pathlib import Path

import pytest

from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules, StopScope
from tests.support.asking import scripted_answer
from tests.support.scripted import Stage

MARKS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
OPEN, CLOSE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
LONG = ["<|open|>", "think", "<|sep|>", "\nhm", "<|close|>", "think", "<|sep|>", "yes"]


def opened(end: str) -> str:
    return (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        + end
        + "<|go|>"
    )


def test_a_tag_of_several_tokens_named_as_a_stop_wins_over_the_id_of_its_last_token(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    ids = (stage.id("<|sep|>"),)
    answer = scripted_answer(
        stage, "go", rules=StopRules.of(CLOSE, token_ids=ids, scope=StopScope.ALL)
    )
    stop = answer.finished.stop
    assert (stop.kind, stop.value) == (StopKind.STOP_STRING, CLOSE)
    assert (answer.thinking, answer.text) == ("hm", "")
    only_id = scripted_answer(stage, "go", rules=StopRules(token_ids=ids, scope=StopScope.ALL))
    assert only_id.finished.stop.kind is StopKind.EOS
    assert (only_id.thinking, only_id.text) == ("hm", "yes")


def test_tokens_of_a_long_tag_count_as_thinking(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    assert scripted_answer(stage, "go").finished.usage.thinking_tokens == 7


@pytest.mark.parametrize("begun", ["", "<|channel>thought"])
def test_a_tag_that_is_partly_special_tokens_is_a_tag(tmp_path: Path, begun: str) -> None:
    script = ["<|channel>", "thought", "\nhm", "<channel|>", "\n", "yes", "<|channel>", "x"]
    stage = Stage(
        tmp_path,
        {"go": script[2:] if begun else script},
        pieces=["thought", "\nhm", "yes", "x"],
        special=["<|channel>", "<channel|>"],
        template=opened(begun),
    )
    answer = scripted_answer(stage, "go", "thought")
    assert (answer.thinking.strip(), answer.text) == ("hm", "yesx")
    assert answer.finished.stop.kind is StopKind.EOS
    assert answer.finished.usage.thinking_tokens == (2 if begun else 4)


def test_dropped_text_contains_what_could_have_become_a_tag(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a ", "END<|op", "x"]}, plain=MARKS)
    stop = scripted_answer(stage, "go", "END").finished.stop
    assert (stop.value, stop.dropped) == ("END", "END<|op")


def test_the_rest_of_the_last_piece_is_dropped_with_its_tag(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": [f"{OPEN}\nhm END{CLOSE}yes", "x"]}, plain=MARKS)
    stop = scripted_answer(
        stage, "go", rules=StopRules.of("END", scope=StopScope.TEXT_AND_THINKING)
    ).finished.stop
    assert stop.dropped == f"END{CLOSE}yes"


def test_a_tag_that_a_person_quotes_opens_nothing(tmp_path: Path) -> None:
    question = "what is <think>?"
    for number, template in enumerate(
        (opened(""), "{% for m in messages %}user:{{ m.content }}{% endfor %}:<|go|>")
    ):
        stage = Stage(
            tmp_path / str(number),
            {},
            plain=["<think>", "</think>"],
            pieces=["yes"],
            template=template,
        )
        stage.scripts = dict.fromkeys([question, question + ":"], stage.ids("yes"))
        answer = scripted_answer(stage, question)
        assert (answer.thinking, answer.text) == ("", "yes")
