from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
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
