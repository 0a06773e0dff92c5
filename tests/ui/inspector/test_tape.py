"""The tape and the table of tokens, made from real runs of a scripted model."""

from dataclasses import replace

import pytest

from engine.recording.replay import replay
from engine.recording.run_trace import RunTrace
from engine.stopping.rules import StopRules
from tests.support.scripted import END
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.inspector.shown_run import Tape, TokenMark
from ui.inspector.tokens_tab import TokenTable


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


def test_tape_marks_what_another_list_would_cut_or_keep(record: Record) -> None:
    trace = trace_of(record(["ab", " x", " EN", "D!"], "END"))
    earlier = Tape(trace, tried=replay(trace, StopRules.of("x")))
    assert [(text, mark) for text, mark in marks(earlier) if mark & TokenMark.LOST] == [
        ("x", TokenMark.LOST),
        (" ", TokenMark.LOST),
    ]
    later = Tape(trace, tried=replay(trace, StopRules()))
    gained = [text for text, mark in marks(later) if mark & TokenMark.GAINED]
    assert "".join(gained) == "END!"
    assert not any(mark & TokenMark.CUT for _, mark in marks(later))


# 256 bytes and the three special tokens of every script come before the first of its own.
@pytest.mark.parametrize("rules", [StopRules.of("<|x|>"), StopRules(token_ids=(259,))])
def test_a_stop_by_its_token_that_is_kept_is_matched_and_not_cut(
    record: Record, rules: StopRules
) -> None:
    kept = replace(rules, include_stop=True)
    tape = Tape(trace_of(record(["a", "<|x|>", "b"], rules=kept, special=["<|x|>"])))
    assert marks(tape)[-1] == ("<|x|>", TokenMark.MATCHED)


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


def test_the_table_of_tokens_has_a_row_a_token_and_can_be_filtered(record: Record) -> None:
    table = TokenTable()
    table.show_trace(trace_of(record(["a\n", "b", "E", "c"], "END")))
    assert table.rowCount() == 5
    table.set_filter("⏎")
    assert table.rowCount() == 1
    lines = table.as_tsv().splitlines()
    assert lines[0].split("\t") == [column.title for column in table.columns]
    assert lines[1].split("\t")[2] == "a⏎"


def test_the_table_of_a_growing_run_adds_the_new_tokens(record: Record) -> None:
    whole = trace_of(record(["a", "b", "c", "d"]))
    growing = RunTrace(whole.setting, whole.rules, None)
    table = TokenTable()
    table.show_trace(growing)
    for token in whole.tokens:
        growing.take(token)
        table.catch_up()
    assert [table.row_of(token.index) for token in whole.tokens] == [0, 1, 2, 3, 4]
