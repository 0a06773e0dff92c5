"""How near each stop came, and why it did not match."""

import pytest

from engine.stopping.record import Channel
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import THINK, trace_of
from ui.inspector.shown_run import Tape
from ui.inspector.stop_tabs import rule_reports


def test_a_stop_that_came_near_says_how_near_and_why_not(record: Record) -> None:
    [report] = rule_reports(Tape(trace_of(record(["say User :", " hi Use it"], "User:"))))
    assert (report.prefix, report.count) == ("User", 1)
    assert report.outcome == "4 of 5 characters, once"
    # One place, one reason: not also that its first four letters came there.
    assert [miss.why for miss in report.misses] == ["White space inside it differs."]


@pytest.mark.parametrize(
    ("stop", "came", "why"),
    [
        (" 7", "6\n7", "White space before it differs."),
        ("7 ", "7\n8", "White space after it differs."),
        ("\nUser:", "x User: y", "White space before it differs."),
    ],
)
def test_a_stop_that_came_with_other_white_space_around_it_is_a_near_miss(
    record: Record, stop: str, came: str, why: str
) -> None:
    [report] = rule_reports(Tape(trace_of(record(list(came), stop))))
    assert why in [miss.why for miss in report.misses]


def test_a_stop_in_the_thinking_is_named_as_one_that_does_not_count(record: Record) -> None:
    shown = record(["<think>", "x END", "</think>", "a"], "END", pieces=["x END"], **THINK)
    [report] = rule_reports(Tape(trace_of(shown)))
    [miss] = report.misses
    assert (miss.channel, miss.text) == (Channel.THINKING, "END")
    assert miss.why == "In the thinking, where stops do not count."


def test_the_stop_that_ended_the_answer_is_marked_as_the_match(record: Record) -> None:
    reports = rule_reports(Tape(trace_of(record(["a", "EN", "D"], "X", "END"))))
    assert [report.is_match for report in reports] == [False, True]
    assert reports[1].outcome == "Ended the answer at token 3"
