"""Marks of drafted and forced tokens and of copies on the tape, and their legend."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor
from pytestqt.qtbot import QtBot

from engine.recording.replay import replay
from engine.recording.saved_run import from_json, to_json
from engine.stopping.record import StopKind
from tests.ui.inspector.conftest import Record
from ui.inspector.shown_run import TokenMark, describe_token, shown_recording
from ui.inspector.tape_view import LEGEND, TapeView
from ui.kit.colors import ThemeMode
from ui.kit.flow_text import text_fragments
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


def test_tape_shows_its_end_after_it_became_lower(view: TapeView, record: Record) -> None:
    view.show_trace(record([f"w{number}\n" for number in range(9)]).trace)
    view.resize(500, 90)
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0


@pytest.mark.parametrize("height", [90, 200, 213, 221])
def test_tape_shows_whole_lines_at_its_end(view: TapeView, record: Record, height: int) -> None:
    view.show_trace(record([f"w{number}\n" for number in range(40)]).trace)
    view.resize(500, height)
    block = view.cursorForPosition(QPoint(20, 4)).block()
    top = view.document().documentLayout().blockBoundingRect(block).top()
    assert top - view.verticalScrollBar().value() == pytest.approx(0, abs=1)


def test_tape_scrolls_to_the_end_of_what_if(view: TapeView, record: Record) -> None:
    trace = record([f"w{number}\n" for number in range(60)]).trace
    assert trace is not None
    view.show_trace(trace)
    view.show_tried(replay(trace, trace.rules.with_strings(["w20"])))
    position = view.toPlainText().index("✂")
    cursor = QTextCursor(view.document())
    cursor.setPosition(position)
    assert view.viewport().rect().contains(view.cursorRect(cursor))
    view.show_tried(replay(trace, trace.rules.with_strings(["no such text"])))
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum()


def test_copied_text_of_the_tape_is_that_of_the_answer(view: TapeView, record: Record) -> None:
    view.show_trace(record(["one ", "two ", "three"]).trace)
    view.selectAll()
    assert view.createMimeDataFromSelection().text().startswith("one·two·three")


@pytest.mark.parametrize(("key", "token"), [(Qt.Key.Key_Left, 12), (Qt.Key.Key_Right, 0)])
def test_first_arrow_key_chooses_the_token_at_that_end(
    view: TapeView, record: Record, qtbot: QtBot, key: Qt.Key, token: int
) -> None:
    view.show_trace(record([f"w{number} " for number in range(12)]).trace)
    chosen: list[int] = []
    view.token_chosen.connect(chosen.append)
    qtbot.keyClick(view, key)
    assert chosen[-1] == token


COPY = [f"w{number} " for number in range(20)]


def grounds(view: TapeView) -> dict[str, set[str]]:
    """Return the grounds of the tokens by their texts."""
    found: dict[str, set[str]] = {}
    for piece in text_fragments(view.document()):
        ground = piece.charFormat().background().color().name()
        found.setdefault(piece.text().strip("\u200b"), set()).add(ground)
    return found


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_tape_has_a_band_for_each_copy_of_an_answer_at_its_limit(
    view: TapeView, record: Record, theme: Theme, mode: ThemeMode
) -> None:
    theme.set_mode(mode)
    shown = record(["Once ", "more ", *COPY * 8], max_tokens=2 + 4 * len(COPY) + 3)
    assert shown.run.finished is not None
    assert shown.run.finished.stop.kind is StopKind.MAX_TOKENS
    view.show_trace(shown.trace, shown.run)
    assert view.legend.endswith("alternating colors: 4 copies of the same 20 tokens")
    text = view.toPlainText()
    assert [text.count(f"copy {number} of 4") for number in range(1, 6)] == [1, 1, 1, 1, 0]
    colors = theme.colors
    # The answer's cycle is that of its last tokens, which begins three tokens later.
    assert {colors.limit_soft, colors.tool_soft} <= grounds(view)["w4·"] | grounds(view)["w5·"]
    assert not {colors.limit_soft, colors.tool_soft} & grounds(view)["Once·"]
    view.choose(2 + 3 + 2 * len(COPY))
    assert view.viewport().toolTip().startswith("Copy 3 of 4, 20 tokens.")
    assert shown.trace is not None
    token = view.token_at(2 + 3 + 2 * len(COPY))
    assert token is not None
    assert "copy 3 of 4, 20 tokens" in describe_token(token, shown.trace.rules, shown.run.cycles)
    view.choose(0)
    assert view.viewport().toolTip() == ""


def test_copies_of_one_token_have_bands_without_numbers(view: TapeView, record: Record) -> None:
    shown = record(["Go ", *["again "] * 100], max_tokens=81)
    view.show_trace(shown.trace, shown.run)
    assert view.legend.endswith("alternating colors: 80 copies of the same token")
    assert "copy" not in view.toPlainText()
    assert len(grounds(view)["again·"]) == 2


def test_a_saved_run_shows_its_copies(view: TapeView, record: Record) -> None:
    shown = record(["Once ", *COPY * 8], max_tokens=81)
    assert shown.trace is not None
    saved = shown_recording(from_json(to_json(shown.trace)), "a file")
    assert saved.run.cycles == shown.run.cycles != ()
    view.show_trace(saved.trace, saved.run)
    assert "copy 4 of 4" in view.toPlainText()
