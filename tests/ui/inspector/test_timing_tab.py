"""The timing tab: where the time of a run went, the bars of the phases, and the waits."""

import pytest
from pytestqt.qtbot import QtBot

from engine.stopping.record import Channel
from engine.values.events import TokenTrace
from tests.ui.inspector.conftest import Record
from ui.chat.session.traces import HeldText
from ui.inspector.run_tabs import TimingTab
from ui.kit.theme import Theme


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


def _token(piece: str, held: str) -> TokenTrace:
    return TokenTrace(0, 5, piece, piece.encode(), Channel.TEXT, 0.0, 0, held, ())


def test_the_time_of_growing_held_text_counts_from_its_first_character() -> None:
    held = HeldText()
    held.take(_token("xE", "E"), 1.0)
    held.take(_token("N", "EN"), 2.0)
    assert (held.text, held.since_s) == ("EN", 1.0)
    assert held.take(_token("x", ""), 5.0) == [(1, 1.0), (1, 2.0), (1, 5.0)]
    assert (held.text, held.since_s) == ("", None)
