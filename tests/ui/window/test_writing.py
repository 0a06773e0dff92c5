"""Whatever was done last, one can write at once: letters arrive in the composer.

Keys go to the widget that has the keyboard, as they do from a real one.
"""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QTextEdit, QWidget

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, TextDelta, Timing, Usage
from tests.ui.driving import END, ScriptedEngine, eventually
from tests.ui.keyboard import click, keyboard, row
from ui.chat.messages.question_view import QuestionView
from ui.kit.fields import GrowingInput
from ui.stops.stop_rows import StopColumn
from ui.window.main_window import MainWindow


def write(window: MainWindow, letters: str = "abc") -> None:
    """Press the keys of letters, and see them arrive behind what was there."""
    before = window.chat.composer.text
    for letter in letters:
        QTest.keyClick(keyboard(), letter)
    assert window.chat.composer.text == before + letters
    window.chat.composer.set_text("")


def press(window: QWidget, name: str) -> None:
    """Press a visible button by the name that a screen reader says."""
    click(
        next(
            one
            for one in window.findChildren(QAbstractButton)
            if one.accessibleName().startswith(name) and one.isVisible() and one.isEnabled()
        )
    )


async def asked(window: MainWindow, scripted: ScriptedEngine, question: str = "Go") -> None:
    count = len(scripted.generations)
    assert window.workspace.send(question)
    await eventually(lambda: len(scripted.generations) > count)
    scripted.say(TextDelta("1 2"), END)
    await eventually(lambda: not window.workspace.current.is_running)


async def test_one_can_write_as_soon_as_the_window_is_there(window: MainWindow) -> None:
    write(window)


@pytest.mark.parametrize("has_one_already", [True, False])
async def test_after_new_conversation_from_button_menu_or_keys(
    window: MainWindow, scripted: ScriptedEngine, has_one_already: bool
) -> None:
    for begin in (
        lambda: press(window, "New conversation"),
        lambda: QTest.keyClick(keyboard(), Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier),
    ):
        if not has_one_already:
            await asked(window, scripted)
        window.stop_panel.editor.input.setFocus()
        begin()
        assert not window.workspace.current.conversation.has_messages
        write(window)


async def test_after_a_suggestion(window: MainWindow, scripted: ScriptedEngine) -> None:
    click(window.chat.welcome.buttons[0])
    await eventually(lambda: bool(scripted.generations))
    write(window)
    scripted.say(END)
    await eventually(lambda: not window.workspace.current.is_running)
    write(window)


async def test_after_picking_a_conversation_with_the_mouse_also_the_open_one(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await asked(window, scripted)
    window.workspace.new_conversation()
    for number in (1, 1, 0):
        window.stop_panel.editor.input.setFocus()
        click(window.sidebar.list.viewport(), row(window, number))
        shown = window.workspace.current.conversation
        assert shown is window.workspace.conversations.at(number)
        write(window)


async def test_the_arrow_keys_walk_through_the_list_and_letters_arrive_all_the_same(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    conversations = window.workspace.conversations
    for question in ("a", "b", "c"):
        window.workspace.new_conversation()
        await asked(window, scripted, question)
    window.sidebar.list.setFocus()
    for number in (1, 2):
        QTest.keyClick(keyboard(), Qt.Key.Key_Down)
        assert window.workspace.current.conversation is conversations.at(number)
        assert window.sidebar.list.hasFocus()
    write(window, "bcd")
    assert window.workspace.current.conversation is conversations.at(2)
    assert window.chat.composer.input.hasFocus()


async def test_after_a_question_was_edited_or_left(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await asked(window, scripted)
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


async def test_after_an_answer_was_stopped(window: MainWindow, scripted: ScriptedEngine) -> None:
    def by_keys(key: Qt.Key, modifier: Qt.KeyboardModifier) -> Callable[[], None]:
        return lambda: QTest.keyClick(keyboard(), key, modifier)

    modifiers = Qt.KeyboardModifier
    for stop in (
        lambda: click(window.chat.composer.action),
        by_keys(Qt.Key.Key_Escape, modifiers.NoModifier),
        by_keys(Qt.Key.Key_Period, modifiers.ControlModifier),
    ):
        await running(window, scripted)
        window.chat.column.setFocus()
        stop()
        assert scripted.cancelled == scripted.generations
        write(window)
        scripted.say(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
        await eventually(lambda: not window.workspace.current.is_running)
        write(window)


@pytest.mark.parametrize("button", ["Regenerate", "Continue past"])
async def test_after_another_answer_was_asked_for_with_a_button(
    window: MainWindow, scripted: ScriptedEngine, button: str
) -> None:
    await asked(window, scripted)
    press(window, button)
    await eventually(lambda: len(scripted.generations) == 2)
    write(window)
    scripted.say(END)
    await eventually(lambda: not window.workspace.current.is_running)
    press(window, "Earlier version")
    write(window)


async def test_after_a_conversation_was_deleted_and_brought_back(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await asked(window, scripted)
    window.sidebar.delete_current()
    write(window)
    press(window, "Undo: Deleted")
    write(window)


async def test_letters_that_no_field_takes_arrive_from_everywhere(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.current.stops.add("6")
    await asked(window, scripted)
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


class Paints(QObject):
    """Counts how often a widget is asked to draw the place of its first letters."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.seen: list[str] = []
        self._owner = widget.parentWidget()
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        is_drawn = isinstance(event, QPaintEvent) and event.region().contains(QPoint(60, 8))
        if is_drawn and isinstance(self._owner, GrowingInput):
            self.seen.append(self._owner.placeholderText())
        return False


async def test_the_hint_in_the_composer_is_drawn_again_when_it_changes(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    field = window.chat.composer.input
    paints = Paints(field.viewport())
    model = window.workspace.models
    assert model.info is not None
    # The chat keeps its model, so that its hint tells of the load of this very folder.
    model.path = model.info.path
    model.stage, model.name = "loading", "scripted"
    model.changed.emit()
    await eventually(lambda: paints.seen[-1:] == ["Message scripted (loading…)"])
    model.stage = "ready"
    model.changed.emit()
    await eventually(lambda: paints.seen[-1:] == ["Message scripted"])


async def running(window: MainWindow, scripted: ScriptedEngine, question: str = "Go") -> None:
    """Ask a question whose answer runs on."""
    count = len(scripted.generations)
    assert window.workspace.send(question)
    await eventually(lambda: len(scripted.generations) > count)


async def test_return_says_why_a_message_cannot_be_sent(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    composer = window.chat.composer
    composer.show_stage(is_ready=False, is_running=False, placeholder="Load a model first")
    composer.set_text("Hello")
    QTest.keyClick(composer.input, Qt.Key.Key_Return)
    assert composer.notice.text() == "Load a model first"
    assert composer.notice.isVisible()


async def test_editing_the_last_question_while_an_answer_runs_says_why_it_cannot_be_done(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await running(window, scripted)
    window.chat.edit_last_question()
    assert "Wait for the answer" in window.chat.composer.notice.text()
    assert window.chat.composer.notice.isVisible()


async def test_a_half_typed_stop_stays_with_its_conversation(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    editor, first = window.stop_panel.editor, window.workspace.current
    await asked(window, scripted)
    window.stop_panel.show()
    editor.input.setText("EN")
    window.new_conversation()
    assert editor.input.text() == ""
    editor.input.setText("other")
    window.workspace.open(first.conversation)
    assert editor.input.text() == "EN"
    QTest.keyClick(editor.input, "D")
    QTest.keyClick(editor.input, Qt.Key.Key_Return)
    assert [one.stop.text for one in first.conversation.stops] == ["END"]


async def test_a_stop_that_is_edited_in_the_list_is_kept_when_another_conversation_is_opened(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    first, table = window.workspace.current, window.stop_panel.editor.table
    await asked(window, scripted)
    first.stops.add("EN")
    window.stop_panel.show()
    table.edit(table.model().index(0, StopColumn.SEQUENCE))
    field = table.viewport().findChild(QLineEdit)
    assert field is not None
    field.setText("END")
    window.new_conversation()
    assert [one.stop.text for one in first.conversation.stops] == ["END"]


async def test_the_button_of_the_stops_goes_to_the_list_also_when_the_panel_is_open(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.stop_panel.show()
    window.chat.focus_composer()
    click(window.chat.composer.stops)
    assert QApplication.focusWidget() is window.stop_panel.editor.input
