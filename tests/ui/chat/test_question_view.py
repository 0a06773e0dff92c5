import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ui.chat.messages.question_view import QuestionView
from ui.kit.theme import Theme
from ui.records.messages import ConversationMessage


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> QuestionView:
    view = QuestionView(ConversationMessage("user", "Why?"))
    qtbot.addWidget(view)
    # Away from the mouse, which wakes the buttons too.
    view.setGeometry(100, 100, 600, 120)
    view.show()
    view.activateWindow()
    qtbot.waitUntil(view.isActiveWindow, timeout=60_000)
    # Qt gives the keyboard to the first control of a window.
    qtbot.waitUntil(lambda: QApplication.focusWidget() is not None, timeout=60_000)
    QApplication.focusWidget().clearFocus()
    return view


def is_drawn(view: QuestionView, button: QWidget) -> bool:
    image = view.grab().toImage()
    corner = button.mapTo(view, QPoint(0, 0))
    colors = {
        image.pixel(corner.x() + x, corner.y() + y)
        for x in range(4, button.width() - 4)
        for y in range(4, button.height() - 4)
    }
    return len(colors) > 1


def test_buttons_are_hidden_until_they_have_the_focus(view: QuestionView) -> None:
    assert not is_drawn(view, view.edit)
    view.edit.setFocus()
    assert is_drawn(view, view.edit)
    view.edit.clearFocus()
    assert not is_drawn(view, view.edit)


def test_buttons_appear_when_the_mouse_is_over_the_message(view: QuestionView) -> None:
    view.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
    assert is_drawn(view, view.edit)
    view.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
    assert not is_drawn(view, view.edit)


def test_the_switch_of_versions_is_always_seen(view: QuestionView) -> None:
    assert not view.action_row.place.isVisible()
    view.action_row.show_versions(1, 2)
    assert is_drawn(view, view.action_row.later)
    assert not view.action_row.earlier.isEnabled()


def test_an_unchanged_question_is_not_asked_again(view: QuestionView, qtbot: QtBot) -> None:
    view.begin_editing()
    assert view.editor is not None
    with qtbot.assertNotEmitted(view.edited):
        view.editor.send.click()
    assert view.editor is None


def test_an_edited_question_is_sent_and_an_empty_one_is_not(
    view: QuestionView, qtbot: QtBot
) -> None:
    view.begin_editing()
    assert view.editor is not None
    view.editor.input.setPlainText("  ")
    with qtbot.assertNotEmitted(view.edited):
        view.editor.send.click()
    view.editor.input.setPlainText("How?")
    with qtbot.waitSignal(view.edited) as sent:
        view.editor.send.click()
    assert sent.args == ["How?", ()]


def test_nothing_is_asked_while_an_answer_runs(view: QuestionView) -> None:
    view.begin_editing()
    assert view.editor is not None
    view.show_busy(True)
    assert not view.editor.send.isEnabled()
    assert not view.edit.isEnabled()


def test_a_question_is_as_high_as_its_text_whatever_room_it_gets_at_first(
    theme: Theme, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(760, 100)
    window.show()
    heights = set()
    for given_px in range(20, 60):
        view = QuestionView(ConversationMessage("user", "Question 8"), window)
        view.setGeometry(0, 0, 760, given_px)
        view.show()
        QApplication.processEvents()
        layout = view.layout()
        assert layout is not None
        heights.add(layout.totalSizeHint().height())
    assert len(heights) == 1
