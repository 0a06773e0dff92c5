"""Marks of drafted and forced tokens on the tape, and their legend."""

import pytest
from pytestqt.qtbot import QtBot

from tests.ui.inspector.conftest import Record
from ui.inspector.tape_view import MarkKind, TapeLegend, TapeView
from ui.kit.theme import Theme


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> TapeView:
    made = TapeView()
    qtbot.addWidget(made)
    made.resize(500, 200)
    made.show()
    return made


@pytest.fixture
def legend(theme: Theme, qtbot: QtBot) -> TapeLegend:
    made = TapeLegend()
    qtbot.addWidget(made)
    return made


def test_the_tape_marks_what_was_guessed_in_a_real_run(view: TapeView, record: Record) -> None:
    view.show_trace(record([f"w{number} " for number in range(12)]).trace)
    assert view.mark_kinds == []
    view.show_trace(record([f"w{number} " for number in range(12)], guesses=True).trace)
    assert view.mark_kinds == [MarkKind.DRAFTED]


def test_the_legend_explains_only_the_shown_marks(legend: TapeLegend) -> None:
    assert legend.isHidden()
    legend.show_kinds([MarkKind.DRAFTED, MarkKind.HELD])
    assert not legend.isHidden()
    said = legend.accessibleName()
    assert "accepted draft token" in said
    assert "held back" in said
    assert "schema" not in said
    legend.show_kinds([])
    assert legend.isHidden()
