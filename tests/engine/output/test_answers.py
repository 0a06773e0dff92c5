"""Stops, channels and limits on the real pipeline, driven token by token by a scripted model."""

from pathlib import Path

import pytest

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules, StopScope
from tests.support.asking import scripted_answer
from tests.support.scripted import END, Stage

THINK = {"plain": ["<think>", "</think>"]}
TOOLS = {
    "plain": ["<tool_call>", "</tool_call>", "<think>", "</think>"],
    "template": (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        "{# tool_call.name <tool_call> #}{% if add_generation_prompt %}<|go|>{% endif %}"
    ),
}
CALL = '\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'


def test_a_stop_that_spans_tokens_is_cut_and_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["1 2 3", " hello", " world", " 4"]})
    answer = scripted_answer(stage, "go", "hello world")
    stop = answer.finished.stop
    assert answer.text == "1 2 3 "
    assert (stop.kind, stop.value, stop.rule_index) == (StopKind.STOP_STRING, "hello world", 0)
    assert (stop.text_offset, stop.token_index, stop.dropped) == (6, 2, "hello world")
    assert answer.finished.usage.output_tokens == 3
    assert stop.token_text == " world"


def test_no_token_is_sampled_beyond_the_one_in_flight(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "END", *"bcdefghijkl"]})
    scripted_answer(stage, "go", "END")
    # One chunk of prompt, the last prompt token, "a", "END" and the one in flight.
    assert len([width for _, width in stage.model.calls if width == 1]) <= 4


def test_held_text_is_released_at_eos(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["THE", " E"]})
    answer = scripted_answer(stage, "go", "END")
    assert answer.text == "THE E"
    assert answer.finished.stop.kind is StopKind.EOS
    assert answer.finished.stop.held == "E"
    assert answer.finished.stop.token_text == END


def test_held_text_is_released_at_the_token_limit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["THE", " E", "x"]})
    answer = scripted_answer(stage, "go", "END", max_tokens=2)
    assert (answer.text, answer.finished.stop.kind) == ("THE E", StopKind.MAX_TOKENS)
    assert answer.finished.usage.output_tokens == 2


def test_a_full_context_is_told_apart_from_the_token_limit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["x"] * 100}, context=32)
    answer = scripted_answer(stage, "go", max_tokens=90)
    usage = answer.finished.usage
    assert answer.finished.stop.kind is StopKind.CONTEXT_FULL
    assert usage.prompt_tokens + usage.output_tokens == 32


def test_a_stop_wins_over_the_limit_and_eos_on_the_same_token(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "END"]})
    answer = scripted_answer(stage, "go", "END", max_tokens=2)
    assert answer.finished.stop.kind is StopKind.STOP_STRING


def test_eos_on_the_last_allowed_token_is_eos(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "b"]})
    kinds = [scripted_answer(stage, "go", max_tokens=most).finished.stop.kind for most in (2, 3, 4)]
    assert kinds == [StopKind.MAX_TOKENS, StopKind.EOS, StopKind.EOS]


def test_a_stop_at_the_very_first_character_leaves_an_empty_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["END", "x"]})
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.stop.text_offset) == ("", 0)
    assert answer.finished.stop.value == "END"


def test_a_character_split_over_tokens_arrives_whole_and_can_be_a_stop(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["go ", "🚀", " up"]}, pieces=["go ", " up"])
    assert len(stage.ids("🚀")) == 4
    assert scripted_answer(stage, "go").text == "go 🚀 up"
    stopped = scripted_answer(stage, "go", "🚀")
    assert (stopped.text, stopped.finished.usage.output_tokens) == ("go ", 5)


def test_a_truncated_character_becomes_one_replacement_and_blocks_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": []}, pieces=["a", "b"])
    broken = stage.ids("🚀")[:2]
    stage.scripts["go"] = [stage.id("a"), *broken, stage.id("b"), *broken]
    assert scripted_answer(stage, "go").text == "a\ufffdb\ufffd"


def test_a_stop_is_reported_though_its_token_ends_in_half_a_character(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": []}, pieces=["a", "END", "x"])
    stage.scripts["go"] = [stage.id("a"), stage.id("END"), stage.ids("🚀")[0], stage.id("x")]
    answer = scripted_answer(stage, "go", "END")
    assert (answer.text, answer.finished.usage.output_tokens) == ("a", 2)


def test_a_replacement_that_appears_at_the_end_passes_the_matcher(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": []}, pieces=["a"])
    stage.scripts["go"] = [stage.id("a"), stage.ids("🚀")[0]]
    answer = scripted_answer(stage, "go", "\ufffd")
    assert (answer.text, answer.finished.stop.kind) == ("a", StopKind.STOP_STRING)


def test_prompt_text_never_matches_nor_joins_a_match(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"say EN": ["D", "!"]})
    answer = scripted_answer(stage, "say EN", "END", "say")
    assert (answer.text, answer.finished.stop.kind) == ("D!", StopKind.EOS)


# -- ids and options ---------------------------------------------------------------------------


def test_a_stop_id_ends_generation_and_its_text_is_not_part_of_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "b", "c"]})
    rules = StopRules(token_ids=(stage.id("b"),))
    answer = scripted_answer(stage, "go", rules=rules)
    stop = answer.finished.stop
    assert (answer.text, stop.kind, stop.value) == ("a", StopKind.STOP_TOKEN, stage.id("b"))
    assert stop.dropped == "b"


def test_eos_still_ends_where_stop_ids_are_given(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a"]}, pieces=["a", "zz"])
    answer = scripted_answer(stage, "go", rules=StopRules(token_ids=(stage.id("zz"),)))
    assert answer.finished.stop.kind is StopKind.EOS


def test_where_string_and_id_complete_on_one_token_the_string_is_reported(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "EN", "D", "c"]})
    rules = StopRules.of("END", token_ids=(stage.id("D"),))
    answer = scripted_answer(stage, "go", rules=rules)
    stop = answer.finished.stop
    assert (answer.text, stop.kind, stop.value) == ("a", StopKind.STOP_STRING, "END")


def test_a_special_token_given_as_a_string_is_matched_by_id(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a E", "<|eot|>", "b"]}, special=["<|eot|>"])
    answer = scripted_answer(stage, "go", "<|eot|>", "END")
    stop = answer.finished.stop
    assert (answer.text, stop.kind, stop.value) == ("a E", StopKind.STOP_STRING, "<|eot|>")


def test_include_stop_keeps_the_stop_and_cuts_the_rest(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "EN", "D b"]})
    answer = scripted_answer(stage, "go", rules=StopRules.of("END", include_stop=True))
    assert (answer.text, answer.finished.stop.dropped) == ("aEND", " b")


def test_ignore_eos_goes_on_and_still_honours_stops(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", END, "b", "END", "c"]})
    rules = StopRules.of("END", ignore_eos=True)
    answer = scripted_answer(stage, "go", rules=rules)
    assert (answer.text, answer.finished.stop.value) == ("ab", "END")


@pytest.mark.parametrize(("least", "text"), [(0, ""), (1, "xa"), (3, "xaxaxa"), (4, "xaxaxaxa")])
def test_min_tokens_lets_early_stops_pass(tmp_path: Path, least: int, text: str) -> None:
    stage = Stage(tmp_path, {"go": ["xa"] * 4})
    rules = StopRules.of("xa", min_tokens=least)
    assert scripted_answer(stage, "go", rules=rules).text == text


# -- channels ----------------------------------------------------------------------------------


def test_thinking_goes_to_its_own_channel_and_is_counted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", "\n", "hm", "</think>", "\n\n", "yes"]}, **THINK)
    answer = scripted_answer(stage, "go")
    assert (answer.thinking, answer.text) == ("hm", "yes")
    assert answer.finished.usage.thinking_tokens == 4


def test_a_stop_inside_thinking_does_not_empty_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", "an END", "</think>", "yes ", "END"]}, **THINK)
    answer = scripted_answer(stage, "go", "END")
    assert (answer.thinking, answer.text) == ("an END", "yes ")
    assert answer.finished.stop.channel is Channel.TEXT


def test_scope_thinking_stops_inside_thinking(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", "an END", "</think>", "yes"]}, **THINK)
    rules = StopRules.of("END", scope=StopScope.TEXT_AND_THINKING)
    answer = scripted_answer(stage, "go", rules=rules)
    assert (answer.thinking, answer.text) == ("an ", "")
    assert answer.finished.stop.channel is Channel.THINKING


def test_no_match_joins_two_channels_and_held_text_stays_in_its_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", "EN", "</think>", "D"]}, **THINK)
    rules = StopRules.of("END", scope=StopScope.ALL)
    answer = scripted_answer(stage, "go", rules=rules)
    assert (answer.thinking, answer.text) == ("EN", "D")


def test_white_space_between_thinking_and_answer_never_matches(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", "x", "</think>", "\n\n", "a", "\n\n", "b"]}, **THINK)
    answer = scripted_answer(stage, "go", "\n\n")
    assert (answer.text, answer.finished.stop.value) == ("a", "\n\n")


def test_a_tag_never_fires_a_stop_and_its_letters_as_text_do(tmp_path: Path) -> None:
    script = ["<think>", "x", "</think>", "a <", "/think", "> b"]
    stage = Stage(tmp_path, {"go": script}, **THINK)
    answer = scripted_answer(stage, "go", "</think>")
    assert (answer.thinking, answer.text) == ("x", "a ")


def test_a_tool_call_is_parsed_and_is_the_reason(tmp_path: Path) -> None:
    script = ["Let me look.", "<tool_call>", CALL, "</tool_call>"]
    stage = Stage(tmp_path, {"go": script}, **TOOLS)
    answer = scripted_answer(stage, "go", "Paris")
    [call] = answer.tool_calls
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris"}')
    assert answer.text == "Let me look."
    assert answer.finished.stop.kind is StopKind.TOOL_CALL


def test_several_calls_in_one_answer_keep_their_order(tmp_path: Path) -> None:
    once = ["<tool_call>", CALL, "</tool_call>", "\n"]
    stage = Stage(tmp_path, {"go": once * 3}, **TOOLS)
    answer = scripted_answer(stage, "go")
    assert len({call.id for call in answer.tool_calls}) == 3
    assert answer.text == ""


def test_a_call_cut_by_the_limit_is_reported_as_the_limit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<tool_call>", CALL, "</tool_call>"]}, **TOOLS)
    answer = scripted_answer(stage, "go", max_tokens=2)
    assert (answer.tool_calls, answer.finished.stop.kind) == ((), StopKind.MAX_TOKENS)
    assert answer.finished.unfinished_tool_call == CALL


def test_a_call_that_completes_on_the_last_allowed_token_is_a_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<tool_call>", CALL, "</tool_call>", "x"]}, **TOOLS)
    answer = scripted_answer(stage, "go", max_tokens=3)
    assert answer.finished.stop.kind is StopKind.TOOL_CALL


def test_a_call_that_cannot_be_parsed_is_kept_as_text(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<tool_call>", "{broken", "</tool_call>", "ok"]}, **TOOLS)
    answer = scripted_answer(stage, "go")
    assert (answer.tool_calls, answer.text) == ((), "{brokenok")
    assert answer.finished.stop.kind is StopKind.EOS


@pytest.mark.parametrize(
    ("script", "stop", "text"),
    [
        (["<tool_call>", "{bro", "ken", "</tool_call>", "ok"], "oke", "{br"),
        (["<tool_call>", "{broken", "</tool_call>", "ok"], "nok", "{broke"),
        (["<tool_call>", "{broken 数 and"], "数", "{broken "),
        (["a", "<tool_call>", "{broken"], "{", "a"),
    ],
    ids=["inside", "across its end", "where the answer ends in it", "its first character"],
)
def test_a_stop_counts_in_the_text_of_something_that_is_not_a_call(
    tmp_path: Path, script: list[str], stop: str, text: str
) -> None:
    answer = scripted_answer(Stage(tmp_path, {"go": script}, **TOOLS), "go", stop)
    found = answer.finished.stop
    assert (answer.text, found.kind, found.value) == (text, StopKind.STOP_STRING, stop)
    assert (found.channel, found.text_offset) == (Channel.TEXT, len(text))


def test_a_possible_stop_at_the_end_of_text_that_is_not_a_call_is_released(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": ["<tool_call>", "{broken"]}, **TOOLS)
    answer = scripted_answer(stage, "go", "kens")
    assert (answer.text, answer.finished.stop.held) == ("{broken", "ken")
    assert answer.finished.stop.kind is StopKind.EOS
