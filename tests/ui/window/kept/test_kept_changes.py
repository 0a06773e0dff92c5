"""What a person changes in a conversation, on a real store and the real engine."""

import asyncio

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from tests.ui.driving import ended, entry, eventually, press
from tests.ui.window.kept.driving_kept import COUNT, Start, ask, limit, views
from ui.records.stop_entries import StopEntry
from ui.window.main_window import MainWindow


async def test_an_answer_is_continued_regenerated_and_switched_with_buttons(
    window: MainWindow,
) -> None:
    limit(window, 6)
    await ask(window, COUNT)
    limit(window, None)
    (view,) = views(window)
    short = view.run.text
    press(view, "Continue this answer")
    await ended(window)
    (view,) = views(window)
    assert view.run.text.startswith(short)
    assert view.run.text.rstrip().endswith("10")
    assert view.action_row.version.text() == "2/2"
    press(view, "Regenerate")
    await ended(window)
    assert views(window)[0].action_row.version.text() == "3/3"
    for place in ("2/3", "1/3"):
        press(views(window)[0], "Earlier version")
        await eventually(lambda: bool(views(window)))
        assert views(window)[0].action_row.version.text() == place
    (view,) = views(window)
    assert view.run.text == short
    assert view.action_row.version.accessibleName() == "Version 1 of 3"
    assert window.stop_panel.verdict.run is view.run
    conversation = window.workspace.current.conversation
    latest = conversation.tree.versions(view.message)[-1]
    window.workspace.open_at(conversation.id, latest.id)
    await eventually(lambda: latest in conversation.messages)
    assert window.stop_panel.verdict.run is latest.run


async def test_a_question_is_edited_in_its_place_with_the_keyboard(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.activateWindow()
    await ask(window, COUNT)
    entry(window, "Edit Last Message").trigger()
    question = window.workspace.current.conversation.messages[0]
    view = window.chat.column.question_view(question)
    assert view is not None
    assert view.editor is not None
    qtbot.keyClick(view.editor.input, Qt.Key.Key_Escape)
    assert view.editor is None
    entry(window, "Edit Last Message").trigger()
    assert view.editor is not None
    view.editor.input.setPlainText("What is a stop sequence?")
    qtbot.keyClick(view.editor.input, Qt.Key.Key_Return)
    await ended(window)
    shown = window.workspace.current.conversation.messages
    assert shown[0].text == "What is a stop sequence?"
    assert window.workspace.current.conversation.tree.versions(shown[0])[0] is question


async def test_a_preset_brings_settings_and_stops_and_can_be_undone(start: Start) -> None:
    async with start() as window:
        limit(window, 9)
        window.workspace.current.stops.add("END")
        window.chat.settings.presets.name.setText("Short")
        QTest.keyClick(window.chat.settings.presets.name, Qt.Key.Key_Return)
    async with start() as window:
        window.workspace.new_conversation()
        limit(window, 3)
        window.workspace.current.stops.remove([0])
        button = window.chat.settings.presets
        button.menu_of_presets.aboutToShow.emit()
        chosen = button.menu_of_presets.actions()[1]  # below the field
        assert chosen.text() == "Short"
        chosen.trigger()
        conversation = window.workspace.current.conversation
        assert conversation.settings.max_tokens == 9
        assert conversation.stops == [StopEntry.of("END")]
        assert conversation.stops_from == "preset:Short"
        window.workspace.current.undo_stack.undo()
        assert conversation.stops == []
        assert (conversation.settings.max_tokens, conversation.stops_from) == (3, "")


async def test_a_deleted_conversation_comes_back_from_the_menu(window: MainWindow) -> None:
    undo = entry(window.menuBar(), "Undo")
    await ask(window, COUNT)
    window.workspace.delete(*window.sidebar.chosen())
    undo.trigger()
    await eventually(lambda: len(views(window)) == 1)
    assert not window.workspace.conversations.can_undo


async def test_undo_takes_back_the_latest_change_of_text_or_sidebar(window: MainWindow) -> None:
    undo = entry(window.menuBar(), "Undo")
    await ask(window, COUNT)
    field = window.chat.composer.input
    QTest.keyClicks(field, "draft")
    conversation = window.workspace.current.conversation
    window.workspace.conversations.pin(conversation, True)
    window.workspace.delete(*window.sidebar.chosen())
    undo.trigger()
    await eventually(lambda: len(views(window)) == 1)
    field.setFocus()
    QTest.keyClicks(field, " more")
    undo.trigger()
    assert " more" not in field.toPlainText()


async def test_undo_key_in_a_draft_takes_back_the_latest_change(window: MainWindow) -> None:
    await eventually(window.isActiveWindow)
    await ask(window, COUNT)
    workspace, field = window.workspace, window.chat.composer.input
    QTest.keyClicks(field, "draft")
    await asyncio.sleep(0)
    workspace.current.stops.add("END")
    QTest.keySequence(field, "Ctrl+Z")
    assert (workspace.current.stops.entries(), field.toPlainText()) == ([], "draft")
    workspace.conversations.pin(workspace.current.conversation, True)
    workspace.delete(*window.sidebar.chosen())
    await eventually(lambda: not views(window))
    QTest.keyClicks(field, "other")
    QTest.keySequence(field, "Ctrl+Z")
    assert field.toPlainText() == ""
    QTest.keyRelease(field, Qt.Key.Key_Control)  # other tests would see it held


async def test_typing_in_a_setting_is_undone_as_typing(window: MainWindow) -> None:
    await eventually(window.isActiveWindow)
    prompt, current = window.chat.settings.system_prompt, window.workspace.current
    window.pane.toggle(window.chat.settings)
    QTest.keyClicks(prompt, "Be brief.")
    prompt.moveCursor(QTextCursor.MoveOperation.Start)
    QTest.keyClicks(prompt, "Now: ")
    for left in ("Be brief.", ""):
        await asyncio.sleep(0.01)
        QTest.keySequence(prompt, "Ctrl+Z")
        assert prompt.text == current.conversation.settings.system_prompt == left
    QTest.keyRelease(prompt, Qt.Key.Key_Control)
