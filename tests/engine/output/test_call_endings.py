"""A tool call that is whole is a call, whatever token or stop ends it."""

from pathlib import Path

import pytest

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules, StopScope
from tests.engine.output.ended import ADD, ALL, calling, check_call, ended
from tests.engine.output.test_families import ANALYSIS, CALL, FINAL, FORMATS, harmony
from tests.support.asking import scripted_answer
from tests.support.scripted import END


@pytest.mark.parametrize("scope", StopScope)
@pytest.mark.parametrize("style", FORMATS)
def test_an_end_token_named_as_a_stop_leaves_a_call_a_call(
    tmp_path: Path, style: str, scope: StopScope
) -> None:
    stage = calling(tmp_path, style)
    by_id = StopRules(token_ids=(stage.id(END),), scope=scope)
    by_text = StopRules.of(END, scope=scope)
    for rules in (by_id, by_text):
        check_call(scripted_answer(stage, "go", rules=rules, tools=(ADD,)))


@pytest.mark.parametrize("scope", StopScope)
@pytest.mark.parametrize("named", ["<|call|>", "<|return|>"])
def test_a_harmony_call_stays_a_call_where_its_end_is_named_as_a_stop(
    tmp_path: Path, named: str, scope: StopScope
) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *CALL], "<|call|>")
    for rules in (
        StopRules.of(named, scope=scope),
        StopRules(token_ids=(stage.id(named),), scope=scope),
    ):
        answer = scripted_answer(stage, "go", rules=rules)
        assert [call.name for call in answer.tool_calls] == ["get_weather"]
        assert answer.finished.stop.kind is StopKind.TOOL_CALL


@pytest.mark.parametrize("style", ["json", "pythonic", "xml"])
def test_the_closing_tag_of_a_call_named_as_a_stop_leaves_it_a_call(
    tmp_path: Path, style: str
) -> None:
    closing = FORMATS[style][0][1]
    stage = calling(tmp_path, style, "more")
    for rules in (
        StopRules.of(closing, scope=ALL),
        StopRules(token_ids=(stage.id(closing),), scope=ALL),
    ):
        answer = scripted_answer(stage, "go", rules=rules, tools=(ADD,))
        check_call(answer)
        assert answer.text == "Sure. "


def test_a_call_whose_end_is_a_stop_in_its_text_is_complete(tmp_path: Path) -> None:
    stage = calling(tmp_path, "open-ended", "\n", "more")
    check_call(scripted_answer(stage, "go", rules=StopRules.of("\n", scope=ALL)))
    by_id = StopRules(token_ids=(stage.id("\n"),), scope=ALL)
    check_call(scripted_answer(stage, "go", rules=by_id))


@pytest.mark.parametrize("beyond", range(3))
def test_the_limit_makes_no_difference_once_a_call_is_whole(tmp_path: Path, beyond: int) -> None:
    stage = calling(tmp_path, "json")
    whole = len(stage.scripts["go"])
    check_call(scripted_answer(stage, "go", tools=(ADD,), max_tokens=whole + beyond))
    cut = scripted_answer(stage, "go", tools=(ADD,), max_tokens=whole - 1)
    assert (cut.tool_calls, cut.finished.stop.kind) == ((), StopKind.MAX_TOKENS)


def test_a_call_without_a_closing_tag_is_whole_at_the_limit_if_it_can_be_read(
    tmp_path: Path,
) -> None:
    stage = calling(tmp_path, "open-ended")
    whole = len(stage.scripts["go"])
    check_call(scripted_answer(stage, "go", max_tokens=whole))


def test_a_second_call_shows_that_the_first_is_whole(tmp_path: Path) -> None:
    first = FORMATS["open-ended"][2]
    stage = calling(tmp_path, "open-ended", *first[:2], "[ARGS]", '{"a": ')
    answer = scripted_answer(stage, "go", max_tokens=len(stage.scripts["go"]))
    assert [call.name for call in answer.tool_calls] == ["add"]
    assert answer.finished.unfinished_tool_call == 'add[ARGS]{"a": '
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS


def test_a_stop_in_the_text_after_a_call_is_the_stop(tmp_path: Path) -> None:
    stage = calling(tmp_path, "json", "so ", "EN", "D")
    answer = scripted_answer(stage, "go", "END", tools=(ADD,))
    assert ended(answer) == (StopKind.STOP_STRING, "END")
    assert len(answer.tool_calls) == 1


@pytest.mark.parametrize("least", [0, 100])
def test_a_special_token_that_is_not_a_stop_here_stays_in_the_call(
    tmp_path: Path, least: int
) -> None:
    stage = calling(tmp_path, "open-ended")
    scope = ALL if least else StopScope.TEXT
    for rules in (
        StopRules.of("[ARGS]", scope=scope, min_tokens=least),
        StopRules(token_ids=(stage.id("[ARGS]"),), scope=scope, min_tokens=least),
    ):
        check_call(scripted_answer(stage, "go", rules=rules))


def test_a_special_token_inside_a_call_is_a_stop_in_scope(tmp_path: Path) -> None:
    stage = calling(tmp_path, "open-ended")
    answer = scripted_answer(stage, "go", rules=StopRules.of("[ARGS]", scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, "[ARGS]")
    assert answer.finished.unfinished_tool_call == "add"
    assert answer.finished.stop.channel is Channel.TOOL


def test_a_string_in_the_text_of_a_special_token_of_a_call_wins_over_its_id(
    tmp_path: Path,
) -> None:
    stage = calling(tmp_path, "open-ended")
    rules = StopRules.of("G", token_ids=(stage.id("[ARGS]"),), scope=ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_STRING, "G")
    assert answer.finished.unfinished_tool_call == "add[AR"


def test_a_second_message_never_joins_the_held_text_of_an_invalid_call(
    tmp_path: Path,
) -> None:
    script = ["<|channel|>", "commentary", " to=functions.add", "<|message|>", "EN", "<|end|>"]
    stage = harmony(tmp_path, [*script, *FINAL, "D"])
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.stop.kind) == ("END", StopKind.EOS)
