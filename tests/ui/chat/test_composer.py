import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QInputMethodEvent, QTextCursor
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ui.chat.composer.composer import Composer


def test_enter_sends_what_was_typed(qtbot: QtBot, composer: Composer) -> None:
    qtbot.keyClicks(composer.input, "hi there")
    with qtbot.waitSignal(composer.submitted):
        qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    assert composer.message == "hi there"


def test_shift_enter_breaks_the_line(qtbot: QtBot, composer: Composer) -> None:
    qtbot.keyClicks(composer.input, "a")
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.input, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.input, "b")
    assert composer.text == "a\nb"


def test_enter_does_not_send_while_an_input_method_composes(
    qtbot: QtBot, qapp: QApplication, composer: Composer
) -> None:
    qtbot.keyClicks(composer.input, "ni")
    qapp.sendEvent(composer.input, QInputMethodEvent("にほん", []))
    with qtbot.assertNotEmitted(composer.submitted):
        qtbot.keyClick(composer.input, Qt.Key.Key_Return)
    qapp.sendEvent(composer.input, QInputMethodEvent("", []))
    with qtbot.waitSignal(composer.submitted):
        qtbot.keyClick(composer.input, Qt.Key.Key_Return)


def test_the_button_stops_while_an_answer_runs(qtbot: QtBot, composer: Composer) -> None:
    composer.show_stage(is_ready=True, is_running=True, placeholder="")
    with qtbot.waitSignal(composer.stop_requested):
        qtbot.mouseClick(composer.action, Qt.MouseButton.LeftButton)
    assert composer.action.accessibleName() == "Stop the answer"


def test_lines_are_as_far_apart_as_in_messages_and_the_field_grows(
    qtbot: QtBot, composer: Composer
) -> None:
    field = composer.input
    composer.resize(600, 300)
    heights = []
    for text in ("", "one", "one\ntwo", "one\ntwo\nthree", "one"):
        composer.set_text(text)
        heights.append(field.height())
        assert field.verticalScrollBar().maximum() == 0
    empty, one, two, three, again = heights
    assert empty == one == again
    line_px = field.fontMetrics().lineSpacing()
    assert 1.15 * line_px < two - one < 1.35 * line_px
    assert three - two == pytest.approx(two - one, abs=1)
    qtbot.keyClicks(field, "!")
    field.undo()
    assert composer.text == "one"
    composer.set_text("line\n" * 40)
    assert field.verticalScrollBar().maximum() > 0


def test_menu_of_the_field_shows_the_keys_of_the_menu_bar(composer: Composer) -> None:
    field = composer.input
    position = QPoint(4, 4)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, position, position)
    QApplication.sendEvent(field.viewport(), event)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    shown = [action.text() for action in menu.actions() if "\t" in action.text()]
    menu.close()
    assert [text.split("\t")[0] for text in shown] == [
        "Undo", "Redo", "Cut", "Copy", "Paste", "Select All",
    ]  # fmt: skip


def test_scrolled_input_begins_with_a_whole_line(qtbot: QtBot, composer: Composer) -> None:
    field = composer.input
    composer.resize(600, 500)
    composer.set_text("\n".join(f"line {n}" for n in range(14)))
    field.moveCursor(QTextCursor.MoveOperation.End)
    for key in (None, *[Qt.Key.Key_Up] * 12):
        if key is not None:
            qtbot.keyClick(field, key)
        QApplication.processEvents()
        first = field.cursorForPosition(QPoint(0, field.fontMetrics().height() // 2))
        assert 0 <= field.cursorRect(first).top() <= 6
