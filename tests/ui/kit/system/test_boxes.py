"""The one helper that tells, reports and asks."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from ui.kit.dialogs import BoxButton, ask, ask_number, ask_text, report_failure, tell


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


def _button(box: QMessageBox, words: str) -> QPushButton:
    (found,) = [one for one in box.findChildren(QPushButton) if one.text() == words]
    return found


def test_markup_in_a_message_box_is_shown_as_text(parent: QWidget) -> None:
    box = tell(parent, "<b>x</b>", "<i>y</i>", title="About")
    assert box.isVisible()
    assert box.textFormat() is Qt.TextFormat.PlainText
    assert (box.text(), box.informativeText()) == ("<b>x</b>", "<i>y</i>")
    assert box.windowTitle() == "About" or box.windowTitle() == ""  # macOS shows no title
    assert box.icon() is QMessageBox.Icon.NoIcon
    box.close()


def test_a_failure_is_marked_as_one(parent: QWidget) -> None:
    box = report_failure(parent, "It cannot be read.")
    assert box.icon() is QMessageBox.Icon.Warning
    box.close()


def test_only_the_chosen_answer_is_acted_on(parent: QWidget) -> None:
    done: list[str] = []
    box = ask(
        parent,
        "Leave?",
        answers=[
            BoxButton("Export…", lambda: done.append("export")),
            BoxButton("Quit", lambda: done.append("quit"), is_destructive=True),
        ],
    )
    assert box.defaultButton() is _button(box, "Export…")
    _button(box, "Quit").click()
    assert done == ["quit"]
    assert not box.isVisible()


def test_escape_cancels_a_question(parent: QWidget) -> None:
    done: list[str] = []
    box = ask(parent, "Open?", answers=[BoxButton("Open", lambda: done.append("open"))])
    QTest.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
    assert not done


def test_a_question_can_prefer_to_do_nothing(parent: QWidget) -> None:
    done: list[str] = []
    answers = [BoxButton("Open", lambda: done.append("open"))]
    box = ask(parent, "Open?", answers=answers, prefers_cancel=True)
    assert box.defaultButton() is box.escapeButton()
    box.close()
    assert not done


def test_a_name_is_taken_without_the_space_around_it_and_nothing_is_no_name(
    parent: QWidget,
) -> None:
    given: list[str] = []
    for typed in ("  plain  ", "   "):
        dialog = ask_text(parent, "Save as Preset", "Name.", given.append)
        words = "some words of a person in one line"
        assert dialog.width() > dialog.fontMetrics().horizontalAdvance(words)
        dialog.setTextValue(typed)
        dialog.accept()
    assert given == ["plain"]


def test_a_number_is_asked_for_between_its_bounds(parent: QWidget) -> None:
    given: list[int] = []
    dialog = ask_number(parent, "End Token", "A token id:", given.append, least=0, most=9)
    dialog.setIntValue(12)
    dialog.accept()
    assert given == [9]
