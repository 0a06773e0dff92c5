"""The ending tab: why an answer ended, and how likely each token was to be the last."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.stopping.rules import StopRules
from engine.values.request import TraceLevel
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.inspector.inspector_window import why
from ui.inspector.shown_run import Tape
from ui.inspector.stop_tabs import EndingOdds, OddsCurve, ending_odds
from ui.kit.theme import Theme

ODDS = EndingOdds((0.0, 0.5, 0.0, 0.25, 1.0), 10, (11, 13), "Words.", has_end=True)


@pytest.fixture
def curve(theme: Theme, qtbot: QtBot) -> OddsCurve:
    made = OddsCurve()
    qtbot.addWidget(made)
    made.resize(500, 220)
    made.show_odds(ODDS)
    made.show()
    return made


def place_of(curve: OddsCurve, token: int) -> QPoint:
    """Return where a token lies, found as a person does: by what is said there."""
    for x in range(curve.width()):
        at = QPointF(x, 60)
        none = Qt.MouseButton.NoButton
        move = QMouseEvent(
            QMouseEvent.Type.MouseMove, at, at, none, none, Qt.KeyboardModifier.NoModifier
        )
        QApplication.sendEvent(curve, move)
        if curve.toolTip().startswith(f"Token {token}:"):
            return QPoint(x, 60)
    raise AssertionError(f"token {token} is nowhere")


def test_a_click_on_the_curve_chooses_that_token(curve: OddsCurve, qtbot: QtBot) -> None:
    chosen: list[int] = []
    curve.token_chosen.connect(chosen.append)
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=place_of(curve, 14))
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=QPoint(0, 60))
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=QPoint(curve.width() - 1, 60))
    assert chosen == [13, 10, 14]


def test_the_odds_of_ending_are_known_for_fully_recorded_runs_only(record: Record) -> None:
    full = record(["a", "b"], level=TraceLevel.FULL)
    odds = ending_odds(trace_of(full))
    assert odds is not None
    assert len(odds.values) == 3
    assert odds.values[-1] > 0.99
    assert odds.likely == ()
    assert ending_odds(trace_of(record(["a"]))) is None


@pytest.mark.parametrize(
    "rules", [StopRules.of("<|end|>"), StopRules(token_ids=(257,))], ids=["text", "id"]
)
def test_an_end_token_that_is_also_a_stop_is_not_a_near_miss(
    record: Record, rules: StopRules
) -> None:
    shown = record(["a", "b"], level=TraceLevel.FULL, rules=rules)
    trace = trace_of(shown)
    odds = ending_odds(trace)
    assert odds is not None
    assert trace.tokens[-1].special == "<|end|>"
    assert (odds.has_end, odds.likely) == (True, ())
    assert "below 0.01%" in odds.sentence
    assert odds.flat_sentence.endswith("where it was 100%.")


def test_a_place_where_ending_was_likely_is_named(record: Record) -> None:
    shown = record(["a"], level=TraceLevel.FULL, rules=StopRules(ignore_eos=True), max_tokens=3)
    odds = ending_odds(trace_of(shown))
    assert odds is not None
    assert odds.sentence.startswith("The model chose an end token at tokens 2, 3; it was ignored")
    assert not odds.has_end


def test_why_a_stop_ended_the_answer_is_told_in_three_steps(record: Record) -> None:
    shown = record(["ab", "cE", "N", "D!"], "END")
    assert why(shown.run, Tape(trace_of(shown))) == [
        "Began in token 2 “cE” → was complete with token 4 “D!” → "
        "the answer keeps 3 characters; 4 cut off"
    ]
