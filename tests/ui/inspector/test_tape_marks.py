"""Marks of drafted and forced tokens on the tape, and their legend."""

import pytest
from pytestqt.qtbot import QtBot

from tests.ui.inspector.conftest import Record
from ui.inspector.shown_run import TokenMark
from ui.inspector.tape_view import LEGEND, TapeView
from ui.kit.theme import Theme


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> TapeView:
    made = TapeView()
    qtbot.addWidget(made)
    made.resize(500, 200)
    made.show()
    return made


def test_the_tape_marks_what_was_guessed_in_a_real_run(view: TapeView, record: Record) -> None:
    view.show_trace(record([f"w{number} " for number in range(12)]).trace)
    assert view.legend == ""
    view.show_trace(record([f"w{number} " for number in range(12)], guesses=True).trace)
    assert view.legend == LEGEND[TokenMark.DRAFTED]
