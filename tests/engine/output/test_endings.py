"""What ends an answer when several things could: end tokens, tags, calls, limits and stops."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.inference.backend import BatchLimits
from engine.output.answer import AnswerBuilder
from engine.output.setting import AnswerSetup, RunSetting
from engine.scheduling.generation import Answer
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.chat import Tool
from engine.values.events import TextDelta
from tests.engine.output.test_families import ANALYSIS, CALL, FINAL, FORMATS, harmony, tool_template
from tests.support.asking import scripted_answer
from tests.support.scripted import END, Stage

ALL = StopScope.ALL
BOTH = StopScope.TEXT_AND_THINKING
TAGS = ("<think>", "</think>")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
ADD = Tool("add", "Adds.", SCHEMA)


def calling(folder: Path, style: str, *after: str) -> Stage:
    """Return a model that calls a tool and then says more."""
    tags, marker, script = FORMATS[style]
    return Stage(
        folder, {"go": ["Sure. ", *script, *after]}, special=tags, template=tool_template(marker)
    )


def thinking(folder: Path, script: Sequence[str | int], **options: Any) -> Stage:
    return Stage(folder, {"go": script}, plain=TAGS, **options)


def ended(answer: Answer) -> tuple[StopKind, str | int | None]:
    return answer.finished.stop.kind, answer.finished.stop.value


def check_call(answer: Answer) -> None:
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": "x"})
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
    assert answer.finished.unfinished_tool_call == ""


# -- calls and the tokens that end them --------------------------------------------------------


@pytest.mark.parametrize("scope", StopScope)
@pytest.mark.parametrize("style", FORMATS)
def test_an_end_token_named_as_a_stop_leaves_a_call_a_call(
    tmp_path: Path, style: str, scope: StopScope
) -> None:
    stage = calling(tmp_path, style)
    by_id = StopRules(token_ids=(stage.id(END),), scope=scope)
    by_text = StopRules(strings=(END,), scope=scope)
    for rules in (by_id, by_text):
        check_call(scripted_answer(stage, "go", rules=rules, tools=(ADD,)))


@pytest.mark.parametrize("scope", StopScope)
@pytest.mark.parametrize("named", ["<|call|>", "<|return|>"])
def test_a_harmony_call_stays_a_call_where_its_end_is_named_as_a_stop(
    tmp_path: Path, named: str, scope: StopScope
) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *CALL], "<|call|>")
    for rules in (
        StopRules(strings=(named,), scope=scope),
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
        StopRules(strings=(closing,), scope=ALL),
        StopRules(token_ids=(stage.id(closing),), scope=ALL),
    ):
        answer = scripted_answer(stage, "go", rules=rules, tools=(ADD,))
        check_call(answer)
        assert answer.text == "Sure. "


def test_a_call_whose_end_is_a_stop_in_its_text_is_whole(tmp_path: Path) -> None:
    stage = calling(tmp_path, "open-ended", "\n", "more")
    check_call(scripted_answer(stage, "go", rules=StopRules(strings=("\n",), scope=ALL)))
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
def test_a_special_token_that_is_no_stop_here_stays_in_the_call(tmp_path: Path, least: int) -> None:
    stage = calling(tmp_path, "open-ended")
    scope = ALL if least else StopScope.TEXT
    for rules in (
        StopRules(strings=("[ARGS]",), scope=scope, min_tokens=least),
        StopRules(token_ids=(stage.id("[ARGS]"),), scope=scope, min_tokens=least),
    ):
        check_call(scripted_answer(stage, "go", rules=rules))


def test_a_special_token_inside_a_call_is_a_stop_in_scope(tmp_path: Path) -> None:
    stage = calling(tmp_path, "open-ended")
    answer = scripted_answer(stage, "go", rules=StopRules(strings=("[ARGS]",), scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, "[ARGS]")
    assert answer.finished.unfinished_tool_call == "add"
    assert answer.finished.stop.channel is Channel.TOOL


def test_a_string_in_the_text_of_a_special_token_of_a_call_wins_over_its_id(
    tmp_path: Path,
) -> None:
    stage = calling(tmp_path, "open-ended")
    rules = StopRules(strings=("G",), token_ids=(stage.id("[ARGS]"),), scope=ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_STRING, "G")
    assert answer.finished.unfinished_tool_call == "add[AR"


def test_a_second_message_never_joins_what_was_held_of_a_call_that_is_none(
    tmp_path: Path,
) -> None:
    script = ["<|channel|>", "commentary", " to=functions.add", "<|message|>", "EN", "<|end|>"]
    stage = harmony(tmp_path, [*script, *FINAL, "D"])
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.stop.kind) == ("END", StopKind.EOS)


# -- ids and strings on one token --------------------------------------------------------------


def test_an_id_ends_the_answer_though_a_string_could_match_in_its_tokens_letters(
    tmp_path: Path,
) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "yes"])
    rules = StopRules(strings=("<",), token_ids=(stage.id("</think>"),), scope=ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id("</think>"))
    assert (answer.thinking, answer.text) == ("hm", "")


def test_an_id_whose_text_is_the_templates_white_space_ends_the_answer(tmp_path: Path) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "\n\n", "yes"])
    rules = StopRules(strings=("\n\n",), token_ids=(stage.id("\n\n"),))
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id("\n\n"))
    assert answer.text == ""


@pytest.mark.parametrize("scope", [StopScope.TEXT, BOTH])
def test_a_tag_is_no_stop_unless_everything_is_searched(tmp_path: Path, scope: StopScope) -> None:
    stage = thinking(tmp_path, ["<think>", "hm", "</think>", "yes"])
    for tag in TAGS:
        rules = StopRules(strings=(tag,), token_ids=(stage.id(tag),), scope=scope)
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
    answer = scripted_answer(stage, "go", rules=StopRules(strings=(tag,), scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, tag)
    assert (answer.thinking, answer.text) == (thought, "")
    assert answer.finished.stop.channel == channel


MARKS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
OPEN, CLOSE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
LONG = ["<|open|>", "think", "<|sep|>", "\nhm", "<|close|>", "think", "<|sep|>", "yes"]


def test_a_tag_of_several_tokens_named_as_a_stop_wins_over_the_id_of_its_last_token(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    ids = (stage.id("<|sep|>"),)
    answer = scripted_answer(stage, "go", rules=StopRules((CLOSE,), ids, scope=ALL))
    assert ended(answer) == (StopKind.STOP_STRING, CLOSE)
    assert (answer.thinking, answer.text) == ("hm", "")
    only_id = scripted_answer(stage, "go", rules=StopRules((), ids, scope=ALL))
    assert ended(only_id) == (StopKind.EOS, None)
    assert (only_id.thinking, only_id.text) == ("hm", "yes")


def test_tokens_of_a_long_tag_count_as_thinking(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    assert scripted_answer(stage, "go").finished.usage.thinking_tokens == 7


@pytest.mark.parametrize("begun", ["", "<|channel>thought"])
def test_a_tag_of_which_a_part_is_special_is_one(tmp_path: Path, begun: str) -> None:
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
    answer = scripted_answer(stage, "go", rules=StopRules((">th",), (stage.id("thi"),)))
    assert ended(answer) == (StopKind.STOP_STRING, ">th")
    assert (answer.text, answer.finished.stop.dropped) == ("a <|open|", ">thi")


def test_an_eos_named_as_a_stop_id_ends_the_answer_in_any_channel(tmp_path: Path) -> None:
    stage = thinking(tmp_path, ["<think>", "hm"])
    rules = StopRules(token_ids=(stage.id(END),))
    answer = scripted_answer(stage, "go", rules=rules)
    assert ended(answer) == (StopKind.STOP_TOKEN, stage.id(END))
    assert answer.finished.stop.channel is Channel.THINKING


# -- what is held goes out first ----------------------------------------------------------------

ODD = "<|odd|>"


def held_before(folder: Path, *script: str | int, broken: int = 0) -> Stage:
    """Return a model with tags of several tokens that says this, half a character, and ODD."""
    stage = Stage(folder, {"go": [*script, ODD, "x"]}, plain=MARKS, special=[ODD])
    at = stage.scripts["go"].index(stage.id(ODD))
    stage.scripts["go"][at:at] = stage.ids("🚀")[:broken]
    return stage


@pytest.mark.parametrize("by", ["id", "string", "eos"])
def test_everything_held_goes_out_before_a_stop_by_its_id(tmp_path: Path, by: str) -> None:
    stage = held_before(tmp_path, "a E", "N<|op", broken=2)
    if by == "eos":
        stage.scripts["go"] = stage.scripts["go"][:-2]
    rules = StopRules(
        ("END", ODD) if by == "string" else ("END",), (stage.id(ODD),) if by == "id" else ()
    )
    answer = scripted_answer(stage, "go", rules=rules)
    assert answer.text == "a EN<|op\ufffd"
    assert answer.finished.stop.held == "EN<|op"
    stage.scripts["go"] = [i for p in ("a E", "N", ODD) for i in stage.ids(p)]
    assert scripted_answer(stage, "go", rules=rules).finished.stop.held == "EN"


def test_text_that_is_let_go_before_a_special_stop_can_be_a_stop_itself(tmp_path: Path) -> None:
    stage = held_before(tmp_path, "a ", "<|op")
    answer = scripted_answer(stage, "go", "<|o", ODD)
    assert ended(answer) == (StopKind.STOP_STRING, "<|o")
    assert (answer.text, answer.finished.stop.dropped) == ("a ", "<|op")


def test_what_is_dropped_holds_what_could_have_become_a_tag(tmp_path: Path) -> None:
    stage = held_before(tmp_path, "a ", "END<|op")
    stop = scripted_answer(stage, "go", "END").finished.stop
    assert (stop.value, stop.dropped) == ("END", "END<|op")


def test_the_rest_of_the_last_piece_is_dropped_with_its_tag(tmp_path: Path) -> None:
    stage = held_before(tmp_path, f"{OPEN}\nhm END{CLOSE}yes")
    stop = scripted_answer(stage, "go", rules=StopRules(("END",), scope=BOTH)).finished.stop
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


# -- the record ----------------------------------------------------------------------------------


def test_the_match_begins_where_the_kept_stop_begins(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["abc", "STOP", "x"]})
    by_id = StopRules(token_ids=(stage.id("STOP"),), include_stop=True)
    by_text = StopRules(strings=("STOP",), include_stop=True)
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
    rules = StopRules(("\ufffd",), min_tokens=least)
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


# -- Harmony --------------------------------------------------------------------------------------


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
def test_the_words_of_a_header_are_no_stops(tmp_path: Path, word: str, scope: StopScope) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    ids = tuple(stage.ids(word))
    answer = scripted_answer(stage, "go", rules=StopRules((word,), ids[:1], scope=scope))
    assert (answer.thinking, answer.text) == ("think END", "x")
    assert answer.finished.stop.kind is StopKind.EOS


def test_a_marker_is_a_stop_only_where_everything_is_searched(tmp_path: Path) -> None:
    stage = harmony(tmp_path, [*ANALYSIS, *FINAL, "x"])
    for scope, text in ((StopScope.TEXT, "x"), (BOTH, "x"), (ALL, "")):
        answer = scripted_answer(stage, "go", rules=StopRules(("<|end|>",), scope=scope))
        assert (answer.thinking, answer.text) == ("think END", text)


def test_a_stop_that_is_exactly_a_tag_of_several_tokens_counts_in_the_scope_all(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": LONG}, plain=MARKS)
    for scope in StopScope:
        answer = scripted_answer(stage, "go", rules=StopRules((OPEN,), scope=scope))
        wanted = ("", "") if scope is ALL else ("hm", "yes")
        assert (answer.thinking, answer.text) == wanted


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


def test_a_call_that_the_prompt_began_is_one(tmp_path: Path) -> None:
    begun = f'{HEADER}commentary to=functions.get_weather<|message|>{{"city":'
    stage = prefilled(tmp_path, begun, [' "Paris"}', "<|call|>"], "<|call|>")
    answer = scripted_answer(stage, "go")
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})


def test_text_outside_of_messages_is_streamed_and_its_stops_fire_at_once(tmp_path: Path) -> None:
    stage = prefilled(tmp_path, "", ["one ", "END", " two", *FINAL, "x"])
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.usage.output_tokens) == ("one ", 2)


# -- where thinking begins -----------------------------------------------------------------------


def opened(end: str) -> str:
    return (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        + end
        + "<|go|>"
    )


@pytest.mark.parametrize("words", [1, 100])
def test_thinking_that_the_prompt_began_goes_on_however_long_it_is(
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
