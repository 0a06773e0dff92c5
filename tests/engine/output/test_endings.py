"""What ends an answer when several things could: end tokens, tags, calls, limits and stops."""

from pathlib import Path

import pytest

from engine.inference.backend import BatchLimits
from engine.output.answer import AnswerBuilder, AnswerSetup, RunSetting
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import TextDelta
from tests.engine.output.ended import (
    ALL,
    BOTH,
    CLOSE,
    LONG,
    MARKS,
    ODD,
    OPEN,
    TAGS,
    ended,
    held_before,
    opened,
    thinking,
)
from tests.support.asking import scripted_answer
from tests.support.scripted import END, Stage


def test_an_id_ends_the_answer_though_a_string_could_match_in_its_tokens_letters(
    tmp_path: Path,
) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "yes"])
    rules = StopRules.of("<", token_ids=(stage.id("</think>"),), scope=ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id("</think>"))
    assert (answer.thinking, answer.text) == ("hm", "")


def test_an_id_whose_text_is_the_templates_white_space_ends_the_answer(tmp_path: Path) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "\n\n", "yes"])
    rules = StopRules.of("\n\n", token_ids=(stage.id("\n\n"),))
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id("\n\n"))
    assert answer.text == ""


@pytest.mark.parametrize("scope", [StopScope.TEXT, BOTH])
def test_a_tag_is_not_a_stop_unless_everything_is_searched(
    tmp_path: Path, scope: StopScope
) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "yes"])
    for tag in TAGS:
        rules = StopRules.of(tag, token_ids=(stage.id(tag),), scope=scope)
        answer = scripted_answer(stage, "go", rules=rules)
        assert ended(answer) == (StopKind.EOS, None)
        assert (answer.thinking, answer.text) == ("hm", "yes")


@pytest.mark.parametrize(
    ("tag", "thought", "channel"), [("<think>", "", "thinking"), ("</think>", "hm", "thinking")]
)
def test_a_stop_that_is_exactly_a_tag_fires_on_it_where_everything_is_searched(
    tmp_path: Path, tag: str, thought: str, channel: str
) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "yes"])
    answer = scripted_answer(stage, "go", rules=StopRules.of(tag, scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, tag)
    assert (answer.thinking, answer.text) == (thought, "")
    assert answer.finished.stop.channel == channel


def test_a_tag_of_several_tokens_named_as_a_stop_wins_over_the_id_of_its_last_token(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    ids = (stage.id("<|sep|>"),)
    answer = scripted_answer(stage, "go", rules=StopRules.of(CLOSE, token_ids=ids, scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, CLOSE)
    assert (answer.thinking, answer.text) == ("hm", "")
    only_id = scripted_answer(stage, "go", rules=StopRules(token_ids=ids, scope=ALL))
    assert ended(only_id) == (StopKind.EOS, None)
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


def test_a_string_in_text_held_for_a_tag_wins_over_the_id_of_its_token(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a ", "<|open|>", "thi", "x"]}, plain=MARKS)
    answer = scripted_answer(stage, "go", rules=StopRules.of(">th", token_ids=(stage.id("thi"),)))
    assert ended(answer) == (StopKind.STOP_STRING, ">th")
    assert (answer.text, answer.finished.stop.dropped) == ("a <|open|", ">thi")


def test_an_eos_named_as_a_stop_id_ends_the_answer_in_any_channel(tmp_path: Path) -> None:
    stage = thinking(tmp_path, ["<think>", "hm"])
    rules = StopRules(token_ids=(stage.id(END),))
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id(END))
    assert answer.finished.stop.channel is Channel.THINKING


@pytest.mark.parametrize("by", ["id", "string", "eos"])
def test_all_held_text_is_sent_before_a_stop_by_its_id(tmp_path: Path, by: str) -> None:
    stage = held_before(tmp_path, "a E", "N<|op", broken=2)
    if by == "eos":
        stage.scripts["go"] = stage.scripts["go"][:-2]
    rules = StopRules.of(
        *("END", ODD) if by == "string" else ("END",),
        token_ids=(stage.id(ODD),) if by == "id" else (),
    )
    answer = scripted_answer(stage, "go", rules=rules)
    assert answer.text == "a EN<|op\ufffd"
    assert answer.finished.stop.held == "EN<|op"
    stage.scripts["go"] = [i for p in ("a E", "N", ODD) for i in stage.ids(p)]
    assert scripted_answer(stage, "go", rules=rules).finished.stop.held == "EN"


def test_text_that_is_released_before_a_special_stop_can_be_a_stop_itself(tmp_path: Path) -> None:
    stage = held_before(tmp_path, "a ", "<|op")
    answer = scripted_answer(stage, "go", "<|o", ODD)
    assert ended(answer) == (StopKind.STOP_STRING, "<|o")
    assert (answer.text, answer.finished.stop.dropped) == ("a ", "<|op")


def test_dropped_text_contains_what_could_have_become_a_tag(tmp_path: Path) -> None:
    stage = held_before(tmp_path, "a ", "END<|op")
    stop = scripted_answer(stage, "go", "END").finished.stop
    assert (stop.value, stop.dropped) == ("END", "END<|op")


def test_the_rest_of_the_last_piece_is_dropped_with_its_tag(tmp_path: Path) -> None:
    stage = held_before(tmp_path, f"{OPEN}\nhm END{CLOSE}yes")
    stop = scripted_answer(stage, "go", rules=StopRules.of("END", scope=BOTH)).finished.stop
    assert stop.dropped == f"END{CLOSE}yes"


@pytest.mark.parametrize("tag", TAGS)
def test_a_truncated_character_before_a_tag_stays_in_its_channel(tmp_path: Path, tag: str) -> None:
    stage = thinking(tmp_path, ["a", "b"])
    half = stage.ids("🚀")
    before = [stage.id("a")] if tag == "<think>" else [stage.id("<think>"), stage.id("a")]
    stage.scripts["go"] = [*before, *half[:2], stage.id(tag), *half[2:], stage.id("b")]
    answer = scripted_answer(stage, "go")
    texts = (answer.text, answer.thinking)
    first, second = texts if tag == "<think>" else texts[::-1]
    assert first == "a\ufffd"
    assert second.startswith("\ufffd")
    assert second.endswith("b")


def test_the_match_begins_where_the_kept_stop_begins(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["abc", "STOP", "x"]})
    by_id = StopRules(token_ids=(stage.id("STOP"),), include_stop=True)
    by_text = StopRules.of("STOP", include_stop=True)
    for rules in (by_id, by_text):
        answer = scripted_answer(stage, "go", rules=rules)
        stop: StopInfo = answer.finished.stop
        assert (answer.text, stop.text_offset, stop.dropped) == ("abcSTOP", 3, "")


@pytest.mark.parametrize(("least", "text", "dropped"), [(0, "a", "\ufffd"), (2, "a\ufffd", "")])
def test_a_cancelled_answer_honours_the_least_number_of_tokens(
    tmp_path: Path, least: int, text: str, dropped: str
) -> None:
    stage = Stage(tmp_path, {"go": []}, pieces=["a"])
    stage.scripts["go"] = [stage.id("a"), stage.ids("🚀")[0]]
    backend = stage.load(tmp_path, limits=BatchLimits(64, 0, 1))
    rules = StopRules.of("\ufffd", min_tokens=least)
    setup = AnswerSetup(
        setting=RunSetting(family=backend.family, context_room=100),
        rules=rules,
        max_tokens=None,
        vocabulary=backend.vocabulary,
        detokenizer=backend.detokenizer(backend.vocabulary),
        parse_calls=lambda raw, name: [],
    )
    builder = AnswerBuilder(setup)
    assert [builder.add(token_id) for token_id in stage.scripts["go"]] == [None, None]
    stop = builder.end(StopKind.CANCELLED)
    said = "".join(event.text for event in builder.events if isinstance(event, TextDelta))
    assert (said, stop.kind, stop.dropped) == (text, StopKind.CANCELLED, dropped)


def test_a_stop_that_is_exactly_a_tag_of_several_tokens_counts_in_the_scope_all(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    for scope in StopScope:
        answer = scripted_answer(stage, "go", rules=StopRules.of(OPEN, scope=scope))
        wanted = ("", "") if scope is ALL else ("hm", "yes")
        assert (answer.thinking, answer.text) == wanted
