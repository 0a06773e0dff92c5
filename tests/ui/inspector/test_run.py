"""What the inspector says of a run, told from real runs of a scripted model."""

from dataclasses import replace

import pytest

from engine.stopping.record import Channel
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import TokenTrace
from engine.values.request import TraceLevel
from tests.support.scripted import END
from tests.ui.inspector.conftest import Record
from ui.chat.session.holding import HeldText
from ui.chat.session.traces import RunTrace, Traces
from ui.inspector.comparison.comparing import compare
from ui.inspector.ending.ending_odds import ending_odds
from ui.inspector.ending.near_misses import rule_reports
from ui.inspector.ending.what_if_tab import WhatIfTab
from ui.inspector.ending.why import why
from ui.inspector.run.shown_run import ShownRun
from ui.inspector.tape.tape import Tape, TokenMark, alternatives, percent, token_words
from ui.inspector.tape.token_table import COLUMNS, TokenTable
from ui.inspector.timing.phases import held_times, phases

THINK = {"plain": ["<think>", "</think>"]}


def trace_of(shown: ShownRun) -> RunTrace:
    assert shown.trace is not None
    return shown.trace


def marks(tape: Tape) -> list[tuple[str, TokenMark]]:
    return [(span.text, span.marks) for span in tape.spans() if not span.is_chip]


def test_the_tape_shows_what_was_held_matched_and_cut(record: Record) -> None:
    tape = Tape(trace_of(record(["ab E", "x", " EN", "D!"], "END")))
    assert marks(tape) == [
        ("ab ", TokenMark.NONE),
        ("E", TokenMark.HELD),
        ("x", TokenMark.NONE),
        (" ", TokenMark.NONE),
        ("EN", TokenMark.HELD | TokenMark.MATCHED | TokenMark.CUT),
        ("D", TokenMark.MATCHED | TokenMark.CUT),
        ("!", TokenMark.CUT),
    ]
    assert tape.first_matched_row() == 2


def test_a_kept_stop_is_matched_and_not_cut(record: Record) -> None:
    rules = StopRules(("END",), include_stop=True)
    tape = Tape(trace_of(record(["a", "END", "b"], rules=rules)))
    assert marks(tape)[-1] == ("END", TokenMark.MATCHED)


# 256 bytes and the three special tokens of every script come before the first of its own.
@pytest.mark.parametrize("rules", [StopRules(("<|x|>",)), StopRules(token_ids=(259,))])
def test_a_stop_by_its_token_that_is_kept_is_matched_and_not_cut(
    record: Record, rules: StopRules
) -> None:
    kept = replace(rules, include_stop=True)
    tape = Tape(trace_of(record(["a", "<|x|>", "b"], rules=kept, special=["<|x|>"])))
    assert marks(tape)[-1] == ("<|x|>", TokenMark.MATCHED)


def test_a_tag_that_is_the_stop_marks_no_text_before_it(record: Record) -> None:
    rules = StopRules(("</think>",), scope=StopScope.ALL)
    tape = Tape(trace_of(record(["<think>", "a long thought", "</think>"], rules=rules, **THINK)))
    assert marks(tape) == [("a long thought", TokenMark.NONE)]


def test_a_special_token_and_half_a_character_are_chips(record: Record) -> None:
    tape = Tape(trace_of(record(["a", "🚀"], pieces=["a"])))
    assert [(span.text, span.is_chip) for span in tape.spans()] == [
        ("a", False),
        ("f0", True),
        ("9f", True),
        ("9a", True),
        ("🚀", False),
        (END, True),
    ]


def test_only_the_newest_tokens_can_be_asked_for(record: Record) -> None:
    tape = Tape(trace_of(record(["a", "b", "c", "d"])), newest=2)
    assert [token.index for token in tape.tokens] == [3, 4]


def test_a_token_is_described_in_a_line(record: Record) -> None:
    trace = trace_of(record(["aE", "b"], "END", level=TraceLevel.FULL))
    words = token_words(trace.tokens[0], trace.rules)
    for part in (
        "Token 1",
        '"aE"',
        "2 bytes 61 45",
        "answer",
        'held back after it: "E"',
        "#1 1 of 3",
    ):
        assert part in words
    assert "rank 1" in words
    assert '"aE" 100 %' in alternatives(trace.tokens[0], trace.vocabulary)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "100 %"), (0.42, "42 %"), (0.0123, "1.2 %"), (0.0005, "0.05 %"), (0.0, "< 0.01 %")],
)
def test_probabilities_have_as_many_digits_as_help(value: float, words: str) -> None:
    assert percent(value) == words


def test_a_stop_that_came_near_says_how_near_and_why_not(record: Record) -> None:
    [report] = rule_reports(Tape(trace_of(record(["say User :", " hi Use it"], "User:"))))
    assert (report.prefix, report.count) == ("User", 1)
    assert report.outcome == "4 of 5 characters, once"
    assert [miss.why for miss in report.misses] == [
        '":" was expected next, but " " came.',
        "White space inside it differs.",
    ]


@pytest.mark.parametrize(
    ("stop", "came", "why"),
    [
        (" 7", "6\n7", "White space before it differs."),
        (" 7", "7", "White space before it differs."),
        ("7 ", "7\n8", "White space after it differs."),
        (" END", "END\nEND", "White space before it differs."),
        ("\nUser:", "x User: y", "White space before it differs."),
    ],
)
def test_a_stop_that_came_with_other_white_space_around_it_is_a_near_miss(
    record: Record, stop: str, came: str, why: str
) -> None:
    [report] = rule_reports(Tape(trace_of(record(list(came), stop))))
    assert why in [miss.why for miss in report.misses]


def test_a_letter_elsewhere_is_no_near_miss_of_a_letter(record: Record) -> None:
    [report] = rule_reports(Tape(trace_of(record(["b A b"], "a"))))
    assert report.misses == ()
    assert report.outcome == "Not found in the answer"


def test_single_spaces_do_not_crowd_out_what_looks_like_the_stop(record: Record) -> None:
    [report] = rule_reports(Tape(trace_of(record(["x "] * 40 + ["\n7"], " 7"))))
    assert [(miss.text, miss.why) for miss in report.misses] == [
        ("7", "White space before it differs.")
    ]


def test_a_stop_in_the_thinking_is_named_as_one_that_does_not_count(record: Record) -> None:
    shown = record(["<think>", "x END", "</think>", "a"], "END", pieces=["x END"], **THINK)
    [report] = rule_reports(Tape(trace_of(shown)))
    [miss] = report.misses
    assert (miss.channel, miss.text) == (Channel.THINKING, "END")
    assert miss.why == "In the thinking, where stops do not count."


def test_the_stop_that_ended_the_answer_is_told_apart(record: Record) -> None:
    reports = rule_reports(Tape(trace_of(record(["a", "EN", "D"], "X", "END"))))
    assert [report.is_match for report in reports] == [False, True]
    assert reports[1].outcome == "Ended the answer at token 3"


def test_why_a_stop_ended_the_answer_is_told_in_three_steps(record: Record) -> None:
    shown = record(["ab", "cE", "N", "D!"], "END")
    assert why(shown.run, Tape(trace_of(shown))) == [
        '"END" began in token 2 "cE", at character 4 of the answer.',
        'It was complete with token 4 "D!".',
        "The answer was kept up to character 3; 4 characters cut off.",
    ]


def test_why_a_limit_ended_the_answer_says_what_was_released(record: Record) -> None:
    shown = record(["a", "E", "N"], "END", max_tokens=2)
    assert why(shown.run, Tape(trace_of(shown)))[0::2] == [
        "The limit was 2 tokens.",
        '"E" was still held back, and was then released.',
    ]


def test_the_odds_of_ending_are_known_for_fully_recorded_runs_only(record: Record) -> None:
    full = record(["a", "b"], level=TraceLevel.FULL)
    odds = ending_odds(trace_of(full))
    assert odds is not None
    assert len(odds.values) == 3
    assert odds.values[-1] > 0.99
    assert odds.likely == ()
    assert ending_odds(trace_of(record(["a"]))) is None


def test_the_end_itself_is_no_part_of_how_near_the_model_came_to_ending(record: Record) -> None:
    odds = ending_odds(trace_of(record(["a", "b"], level=TraceLevel.FULL)))
    assert odds is not None
    assert odds.has_end
    assert odds.sentence == "Ending was never likely before the end: at most < 0.01 %."


@pytest.mark.parametrize(
    "rules", [StopRules(("<|end|>",)), StopRules(token_ids=(257,))], ids=["text", "id"]
)
def test_an_end_token_that_is_a_stop_too_is_no_near_miss(record: Record, rules: StopRules) -> None:
    shown = record(["a", "b"], level=TraceLevel.FULL, rules=rules)
    trace = trace_of(shown)
    odds = ending_odds(trace)
    assert odds is not None
    assert trace.tokens[-1].special == "<|end|>"
    assert (odds.has_end, odds.likely) == (True, ())
    assert "at most < 0.01 %" in odds.sentence


def test_an_answer_that_is_nothing_but_its_end_says_so(record: Record) -> None:
    odds = ending_odds(trace_of(record([], level=TraceLevel.FULL)))
    assert odds is not None
    assert odds.sentence == "The model ended with its first token."


def test_a_place_where_ending_was_likely_is_named(record: Record) -> None:
    shown = record(["a"], level=TraceLevel.FULL, rules=StopRules(ignore_eos=True), max_tokens=3)
    odds = ending_odds(trace_of(shown))
    assert odds is not None
    assert odds.sentence.startswith("The model chose an end token at tokens 2, 3; it was ignored")
    assert not odds.has_end


def test_a_place_where_another_token_was_drawn_instead_of_the_end_is_named(record: Record) -> None:
    trace = trace_of(record(["a", "b"], level=TraceLevel.FULL))
    token = trace.tokens[1]
    assert token.stats is not None
    trace.tokens[1] = replace(token, stats=replace(token.stats, eos_probability=0.4))
    odds = ending_odds(trace)
    assert odds is not None
    assert odds.sentence == "The model might have ended instead of writing token 2."
    assert odds.likely == (1,)


def test_the_phases_of_a_run_follow_each_other_and_fill_its_time(record: Record) -> None:
    shown = record(["a", "b"])
    assert shown.run.finished is not None
    found = phases(shown.run.finished)
    assert [phase.name for phase in found] == ["Waiting", "Reading", "Writing", "Finishing"]
    total = sum(phase.took_s for phase in found)
    assert total == pytest.approx(shown.run.finished.timing.total_s, abs=0.002)


def test_how_long_text_waited_in_the_matcher_is_told(record: Record) -> None:
    waits = held_times(tuple(trace_of(record(["E", "N", "x", "E"], "END")).tokens))
    assert {text for text, _ in waits} == {"EN", "E"}
    assert all(took_s >= 0 for _, took_s in waits)


def _token(piece: str, held: str) -> TokenTrace:
    return TokenTrace(0, 5, piece, piece.encode(), Channel.TEXT, 0.0, 0, held, ())


def test_held_text_that_grows_waits_since_its_first_character() -> None:
    held = HeldText()
    held.take(_token("xE", "E"), 1.0)
    held.take(_token("N", "EN"), 2.0)
    assert (held.text, held.since_s) == ("EN", 1.0)
    assert held.take(_token("x", ""), 5.0) == [(1, 1.0), (1, 2.0), (1, 5.0)]
    assert (held.text, held.since_s) == ("", None)


def test_held_text_of_which_the_beginning_is_released_waits_since_the_rest_came() -> None:
    held = HeldText()
    held.take(_token("aa", "aa"), 1.0)
    assert held.take(_token("a", "aa"), 2.0) == [(1, 1.0)]
    assert held.since_s == 1.0, "one of the first two still waits"
    held.take(_token("a", "aa"), 3.0)
    assert held.since_s == 2.0


def test_two_runs_part_at_their_first_difference(record: Record) -> None:
    found = compare(record(["a", "b", "c", "d"], "x"), record(["a", "b", "c", "e"], "y"))
    assert (found.common, found.left, found.right) == ("abc", "d", "e")
    assert found.token_index == 3
    assert ("Stop list", '"x"', '"y"') in found.rows


def test_two_runs_that_say_the_same_are_called_so(record: Record) -> None:
    found = compare(record(["ab", "cd"]), record(["ab", "cd"]))
    assert found.sentence == "Both answers are identical."
    assert found.rows == ()


def test_the_table_of_tokens_has_a_row_a_token_and_can_be_filtered(record: Record) -> None:
    table = TokenTable()
    table.show_trace(trace_of(record(["a\n", "b", "E", "c"], "END")))
    assert table.rowCount() == 5
    table.set_filter("⏎")
    assert table.rowCount() == 1
    lines = table.as_tsv().splitlines()
    assert lines[0].split("\t") == list(COLUMNS)
    assert lines[1].split("\t")[2] == "a⏎"


def test_the_table_of_a_growing_run_takes_what_has_arrived(record: Record) -> None:
    whole = trace_of(record(["a", "b", "c", "d"]))
    growing = RunTrace(whole.setting, whole.rules, None)
    table = TokenTable()
    table.show_trace(growing)
    for token in whole.tokens:
        growing.take(token)
        table.catch_up()
    assert [table.row_of(token.index) for token in whole.tokens] == [0, 1, 2, 3, 4]


def test_traces_keep_the_newest_runs_and_forget_all_at_once(record: Record) -> None:
    shown = record(["a"])
    trace = trace_of(shown)
    traces = Traces(most_runs=2)

    class Asked:
        setting, vocabulary = trace.setting, trace.vocabulary
        request = trace.request

    for number in range(3):
        assert traces.begin(str(number), Asked()) is not None  # type: ignore[arg-type]
    assert [traces.get(str(number)) is not None for number in range(3)] == [False, True, True]
    traces.forget_all()
    assert len(traces) == 0


def test_a_long_run_keeps_its_newest_tokens_and_is_not_replayed(record: Record) -> None:
    whole = trace_of(record(["a", "b", "c"]))
    short = RunTrace(whole.setting, whole.rules, None, most_tokens=2)
    for token in whole.tokens:
        short.take(token)
    short.stop = whole.stop
    assert [token.index for token in short.tokens] == [2, 3]
    assert short.recording() is None
    assert whole.recording() is not None


def test_while_the_tokens_of_a_whole_run_are_gathered_none_are_said_to_be_missing(
    record: Record,
) -> None:
    assert WhatIfTab._why_not(record(["a", "b"])) == "Replaying the run…"
