"""The timing tab: where the time of a run went, the bars of the phases, and the waits."""

import pytest
from pytestqt.qtbot import QtBot

from engine.stopping.record import Channel
from engine.values.events import TokenTrace
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.chat.session.traces import HeldText, held_times
from ui.inspector.run_tabs import TimingTab
from ui.inspector.shown_run import ShownRun
from ui.kit.theme import Theme
from ui.records.runs import Run


@pytest.fixture
def timing(theme: Theme, qtbot: QtBot) -> TimingTab:
    tab = TimingTab()
    qtbot.addWidget(tab)
    tab.resize(700, 400)
    tab.show()
    return tab


def test_the_timing_tab_shows_where_the_time_of_a_run_went(
    timing: TimingTab, record: Record
) -> None:
    timing.show_run(record(["a", "b", "c"], "cd"))
    assert timing.note.text().endswith(" in all.")
    said = timing.bars.accessibleName()
    assert [part.split()[0] for part in said.split("; ")] == [
        "Waiting",
        "Reading",
        "Writing",
        "Finishing",
    ]
    assert "of “c”" in timing.waits.text()


def test_the_timing_tab_of_a_running_answer_says_when_the_times_are_known(
    timing: TimingTab,
) -> None:
    timing.show_run(None)
    assert timing.note.text() == "No Answer Selected"
    timing.show_run(ShownRun(Run(), None, "go"))
    assert timing.note.text() == "The times are known when the answer has ended."
    assert timing.bars.isHidden()
    assert timing.waits.text() == ""


def test_the_time_that_text_was_held_back_is_shown(record: Record) -> None:
    waits = held_times(tuple(trace_of(record(["E", "N", "x", "E"], "END")).tokens))
    assert {text for text, _ in waits} == {"EN", "E"}
    assert all(took_s >= 0 for _, took_s in waits)


def _token(piece: str, held: str) -> TokenTrace:
    return TokenTrace(0, 5, piece, piece.encode(), Channel.TEXT, 0.0, 0, held, ())


def test_the_time_of_growing_held_text_counts_from_its_first_character() -> None:
    held = HeldText()
    held.take(_token("xE", "E"), 1.0)
    held.take(_token("N", "EN"), 2.0)
    assert (held.text, held.since_s) == ("EN", 1.0)
    assert held.take(_token("x", ""), 5.0) == [(1, 1.0), (1, 2.0), (1, 5.0)]
    assert (held.text, held.since_s) == ("", None)


def test_after_a_partial_release_the_time_counts_from_the_rest() -> None:
    held = HeldText()
    held.take(_token("aa", "aa"), 1.0)
    assert held.take(_token("a", "aa"), 2.0) == [(1, 1.0)]
    assert held.since_s == 1.0, "one of the first two still waits"
    held.take(_token("a", "aa"), 3.0)
    assert held.since_s == 2.0
