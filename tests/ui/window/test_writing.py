"""Whatever was done last, one can write at once: letters arrive in the composer.

Keys go to the widget that has the keyboard, as they do from a real one.
"""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTextEdit, QWidget

from tests.ui.driving import ScriptedEngine, answered, eventually, press
from tests.ui.keyboard import keyboard
from ui.chat.messages.question_view import QuestionView
from ui.window.main_window import MainWindow


def write(window: MainWindow, letters: str = "abc") -> None:
    """Press the keys of letters, and see them arrive behind what was there."""
    before = window.chat.composer.text
    for letter in letters:
        QTest.keyClick(keyboard(), letter)
    assert window.chat.composer.text == before + letters
    window.chat.composer.set_text("")


@pytest.mark.parametrize("has_one_already", [True, False])
async def test_after_new_conversation_from_button_menu_or_keys(
    window: MainWindow, scripted: ScriptedEngine, has_one_already: bool
) -> None:
    for begin in (
        lambda: press(window, "New Chat"),
        lambda: QTest.keyClick(keyboard(), Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier),
    ):
        if not has_one_already:
            await answered(window, scripted)
        window.stop_panel.editor.input.setFocus()
        begin()
        assert not window.workspace.current.conversation.has_messages
        write(window)


async def test_the_arrow_keys_walk_through_the_list_and_letters_arrive_all_the_same(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    conversations = window.workspace.conversations
    for question in ("a", "b", "c"):
        window.workspace.new_conversation()
        await answered(window, scripted, question)
    window.sidebar.list.setFocus()
    for number in (1, 2):
        QTest.keyClick(keyboard(), Qt.Key.Key_Down)
        assert window.workspace.current.conversation is conversations.every()[number]
        assert window.sidebar.list.hasFocus()
    write(window, "bcd")
    assert window.workspace.current.conversation is conversations.every()[2]
    assert window.chat.composer.input.hasFocus()


async def test_after_a_question_was_edited_or_left(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await answered(window, scripted)
    for how in ("cancel button", "escape", "unchanged", "changed"):
        QTest.keyClick(keyboard(), Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
        (view,) = window.findChildren(QuestionView)
        editor = view.editor
        assert editor is not None
        await eventually(editor.isVisible)
        QTest.keyClicks(keyboard(), "!")
        assert editor.input.toPlainText() == "Go!"
        if how == "cancel button":
            press(window, "Cancel editing")
        elif how == "escape":
            QTest.keyClick(keyboard(), Qt.Key.Key_Escape)
        else:
            if how == "unchanged":
                QTest.keyClick(keyboard(), Qt.Key.Key_Backspace)
            QTest.keyClick(keyboard(), Qt.Key.Key_Return)
        assert len(window.workspace.current.conversation.tree) == (4 if how == "changed" else 2)
        write(window)


async def test_letters_that_no_field_takes_arrive_from_everywhere(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.current.stops.add("6")
    await answered(window, scripted)
    takers = 0
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or not widget.isEnabled() or widget.isWindow():
            continue
        if widget.focusPolicy() == Qt.FocusPolicy.NoFocus:
            continue
        window.chat.composer.set_text("")
        widget.setFocus()
        if QApplication.focusWidget() is not widget:
            continue
        is_field = widget.testAttribute(Qt.WidgetAttribute.WA_InputMethodEnabled)
        is_read_only = isinstance(widget, QTextEdit) and widget.isReadOnly()
        if is_field and not is_read_only:
            continue
        QTest.keyClick(widget, "x")
        assert window.chat.composer.text == "x", f"{widget} took the letter"
        takers += 1
    assert takers > 10
