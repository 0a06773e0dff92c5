"""The ending tab: the curve of how likely each token was to be the last."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.values.request import TraceLevel
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import columns
from ui.inspector.ending_tab import EndingOdds, EndingTab, OddsCurve
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


def test_the_mouse_shows_the_probability_of_each_token(curve: OddsCurve) -> None:
    assert place_of(curve, 12).x() < place_of(curve, 14).x()
    assert curve.toolTip() == "Token 14: 25 %"
    place_of(curve, 15)
    assert curve.toolTip() == "Token 15: 100 %, where the answer ended"


def test_a_click_on_the_curve_chooses_that_token(curve: OddsCurve, qtbot: QtBot) -> None:
    chosen: list[int] = []
    curve.token_chosen.connect(chosen.append)
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=place_of(curve, 14))
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=QPoint(0, 60))
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton, pos=QPoint(curve.width() - 1, 60))
    assert chosen == [13, 10, 14]


def test_a_click_beside_odds_that_are_not_known_does_nothing(
    curve: OddsCurve, qtbot: QtBot
) -> None:
    chosen: list[int] = []
    curve.token_chosen.connect(chosen.append)
    curve.show_odds(None)
    qtbot.mouseClick(curve, Qt.MouseButton.LeftButton)
    assert chosen == []
    assert curve.accessibleName() == "Probability of ending"


def test_the_end_is_a_dot_and_a_run_that_was_cut_has_none(curve: OddsCurve, theme: Theme) -> None:
    assert columns(curve.grab().toImage(), theme.colors.done)
    curve.show_odds(EndingOdds(ODDS.values, 10, (), "Words."))
    assert not columns(curve.grab().toImage(), theme.colors.done)


def test_a_long_run_keeps_its_single_peak(curve: OddsCurve, theme: Theme) -> None:
    values = [0.0] * 20_000
    values[7_001] = 1.0
    curve.show_odds(EndingOdds(tuple(values), 0, (7_001,), "Words."))
    upper = columns(
        curve.grab().toImage(), theme.colors.match, lambda y: 20 < y < curve.height() // 3
    )
    assert upper
    assert upper[-1] - upper[0] < 8


@pytest.fixture
def ending(theme: Theme, qtbot: QtBot) -> EndingTab:
    tab = EndingTab()
    qtbot.addWidget(tab)
    tab.resize(600, 300)
    return tab


def test_the_ending_tab_says_why_it_is_empty(ending: EndingTab, record: Record) -> None:
    ending.show()
    ending.show_run(None)
    assert ending.note.text() == "No run is shown."
    ending.show_run(record(["a", "b"]))
    assert "were not recorded" in ending.note.text()
    assert "Everything" in ending.note.text()
    assert ending.curve.isHidden()


def test_the_ending_tab_computes_the_odds_once_it_is_visible(
    ending: EndingTab, record: Record
) -> None:
    ending.show_run(record(["a", "b", "c"], level=TraceLevel.FULL))
    assert ending.curve.isHidden()
    ending.show()
    assert not ending.curve.isHidden()
    assert ending.note.text().startswith("Ending was never likely")
    assert ending.curve.accessibleName() == ending.note.text()
