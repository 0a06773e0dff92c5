"""Where the time of a run went, and how long text was held back."""

import pytest

from engine.stopping.record import Channel
from engine.values.events import TokenTrace
from engine.values.figures import phases
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.chat.session.traces import HeldText, held_times


def test_the_phases_of_a_run_follow_each_other_and_fill_its_time(record: Record) -> None:
    shown = record(["a", "b"])
    assert shown.run.finished is not None
    found = phases(shown.run.finished)
    assert [phase.name for phase in found] == ["Waiting", "Reading", "Writing", "Finishing"]
    total = sum(phase.took_s for phase in found)
    assert total == pytest.approx(shown.run.finished.timing.total_s, abs=0.002)


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
