"""The menu of a message: what it offers, and what becomes of the conversation."""

import os
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QMessageBox

from engine.values.events import TextDelta
from tests.ui.chat.reading.conversations import long_conversation
from tests.ui.driving import END, ScriptedEngine, eventually
from tests.ui.keyboard import keyboard
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_menu import MessageView
from ui.chat.messages.question_view import QuestionView
from ui.kit.commands import Command, fill_menu
from ui.records.conversations import Conversation, Placement
from ui.records.tool_choice import ToolsInUse
from ui.window.main_window import MainWindow


def entries(window: MainWindow, view: MessageView) -> QMenu:
    menu = QMenu(window)
    fill_menu(menu, window.chat.handling.entries(view))
    return menu


def choose(window: MainWindow, view: MessageView, words: str) -> None:
    menu = entries(window, view)
    menus = [menu, *menu.findChildren(QMenu)]
    (entry,) = (one for part in menus for one in part.actions() if one.text() == words)
    assert entry.isEnabled()
    entry.trigger()
    menu.deleteLater()


async def talk(window: MainWindow, turns: int = 3) -> list[MessageView]:
    """Show a conversation of a few turns; returns the views of its messages."""
    window.workspace.take_in(long_conversation(turns))
    await eventually(lambda: len(window.chat.column.views) == 2 * turns)
    return window.chat.column.views


def texts(conversation: Conversation) -> list[str]:
    return [message.content.split(":")[0] for message in conversation.messages]


async def test_a_message_is_copied_as_shown_or_as_markdown_or_the_selection_alone(
    window: MainWindow,
) -> None:
    answer = (await talk(window))[-1]
    clipboard = QApplication.clipboard()
    choose(window, answer, "Copy")
    assert clipboard.text().startswith("Answer 2: bold words.\nMore words follow.\n")
    choose(window, answer, "Copy as Markdown")
    assert clipboard.text().startswith("Answer 2: **bold** words.\n\n")
    answer.text_view.moveCursor(QTextCursor.MoveOperation.Start)
    answer.text_view.find("bold")
    choose(window, answer, "Copy")
    assert clipboard.text() == "bold"


async def test_a_selection_is_quoted_in_the_message_that_is_being_written(
    window: MainWindow,
) -> None:
    answer = (await talk(window))[-1]
    composer = window.chat.composer
    composer.set_text("Look:")
    answer.text_view.moveCursor(QTextCursor.MoveOperation.Start)
    answer.text_view.find("bold words")
    control = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(window, Qt.Key.Key_Apostrophe, control)
    assert composer.text == "Look:\n\n> bold words\n\n"
    assert keyboard() is composer.input
    QTest.keyClicks(keyboard(), "Why?")
    assert composer.text.endswith("\n\nWhy?")


async def test_a_deleted_message_goes_with_what_follows_it_and_comes_back(
    window: MainWindow,
) -> None:
    views = await talk(window)
    conversation = window.workspace.current.conversation
    before = texts(conversation)
    choose(window, views[2], "Delete This and Following Messages")
    assert texts(conversation) == before[:2]
    bar = window.chat.handling.undo_bar
    await eventually(bar.button.isVisible)
    assert bar.button.accessibleName().startswith("Undo: ")
    QTest.mouseClick(bar.button, Qt.MouseButton.LeftButton)
    assert texts(conversation) == before
    await eventually(lambda: len(window.chat.column.views) == 6)
    choose(window, window.chat.column.views[-1], "Delete")
    assert texts(conversation) == before[:5]
    window.chat.settings.sampling["temperature"].setValue(0.4)
    assert bar.isHidden()  # it would undo this one
    window.workspace.current.undo_stack.undo()
    window.chat.header.pane.setFocus()
    QTest.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert texts(conversation) == before


async def test_an_answer_is_edited_as_a_version_that_says_who_wrote_it(window: MainWindow) -> None:
    answer = (await talk(window))[1]
    assert isinstance(answer, AnswerView)
    choose(window, answer, "Edit…")
    QTest.keyClick(keyboard(), Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClicks(keyboard(), "My own")
    QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    shown = window.workspace.current.conversation.messages
    assert (shown[1].content, len(shown)) == ("My own", 6)
    assert shown[1].run is not None
    assert shown[1].run.state == "written"
    view = window.chat.column.answer_view(shown[1].run)
    assert view is not None
    assert view.reason.text() == "Written by you"
    assert view.proceed.isVisibleTo(view), "the model can go on from it"
    assert len(window.workspace.current.conversation.tree.versions(shown[1])) == 2


async def test_a_branch_is_a_conversation_of_its_own_up_to_the_message(window: MainWindow) -> None:
    views = await talk(window)
    source = window.workspace.current.conversation
    window.workspace.current.stops.ensure("END")
    window.workspace.change_tools(ToolsInUse(("sums",)))
    window.workspace.choose_when_full("ask")
    source.stops_from, source.placement = "preset:Plain", Placement("work")
    choose(window, views[3], "Branch to New Conversation")
    branch = window.workspace.current.conversation
    assert branch is not source
    assert branch.title == "Long (branch)"
    assert texts(branch) == texts(source)[:4]
    assert [stop.stop.text for stop in branch.stops] == ["END"]
    assert branch.tools == ToolsInUse(("sums",))
    assert (branch.when_full, branch.stops_from) == ("ask", "preset:Plain")
    assert branch.placement == Placement("work")
    assert {one.id for one in branch.tree}.isdisjoint(one.id for one in source.tree)


async def test_a_message_is_added_without_an_answer_and_asked_with_the_next_one(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    composer = window.chat.composer
    composer.set_text("Some context")
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    QTest.keyClick(window, Qt.Key.Key_Return, keys)
    conversation = window.workspace.current.conversation
    assert texts(conversation) == ["Some context"]
    assert (composer.text, scripted.requests) == ("", [])
    assert window.chat.header.title.text() == "Some context"
    assert window.workspace.send("And the question")
    await eventually(lambda: bool(scripted.requests))
    asked = [(one.role, one.content) for one in scripted.requests[0].messages]
    assert asked == [("user", "Some context\n\nAnd the question")]


async def test_a_question_without_an_answer_can_be_answered_later(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    assert window.chat.handling.changes.add("Answer me")
    await eventually(lambda: len(window.chat.column.views) == 1)
    (question,) = window.chat.column.views
    assert isinstance(question, QuestionView)
    choose(window, question, "Generate Reply")
    await eventually(lambda: bool(scripted.generations))
    scripted.say(TextDelta("Here"), END)
    await eventually(lambda: not window.workspace.current.is_running)
    assert texts(window.workspace.current.conversation) == ["Answer me", "Here"]


@pytest.mark.skipif(sys.platform == "darwin", reason="the Mac's own voice would speak")
async def test_a_message_is_read_aloud_by_the_systems_program_until_it_is_stopped(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice, said = tmp_path / "espeak-ng", tmp_path / "said"
    voice.write_text(f'#!/bin/sh\ncat > "{said}.part"\nmv "{said}.part" "{said}"\nexec sleep 600\n')
    voice.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setattr("ui.chat.messages.speech._OTHERS", (("espeak-ng", "--stdin"),))
    answer = (await talk(window))[-1]
    speech = window.chat.handling.speech
    choose(window, answer, "Speak")
    await eventually(said.exists)
    assert said.read_text().startswith("Answer 2: bold words.")
    assert speech.process is not None
    choose(window, answer, "Stop Speaking")
    assert speech.process is None


def spoken_failure(window: MainWindow) -> str:
    """Return what the box of a failed reading says; empty while there is none."""
    boxes = [one for one in window.findChildren(QMessageBox) if one.isVisible()]
    return f"{boxes[0].text()} {boxes[0].informativeText()}" if boxes else ""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "no program that reads text aloud. Install speech-dispatcher"),
        ("echo no sound card >&2; exit 1", "espeak-ng says: no sound card"),
        ("exit 3", "espeak-ng ended with code 3. Check that"),
    ],
)
async def test_a_text_that_cannot_be_read_aloud_says_why(
    script: str | None,
    said: str,
    window: MainWindow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if script is not None:
        voice = tmp_path / "espeak-ng"
        voice.write_text(f"#!/bin/sh\n{script}\n")
        voice.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    monkeypatch.setattr("ui.chat.messages.speech._OTHERS", (("espeak-ng", "--stdin"),))
    monkeypatch.setattr("ui.chat.messages.speech._MAC", (("espeak-ng", "--stdin"),))
    choose(window, (await talk(window))[-1], "Speak")
    await eventually(lambda: said in spoken_failure(window))
    assert window.chat.handling.speech.process is None


async def test_answer_menu_continues_and_inspects(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.send("Count")
    await eventually(lambda: bool(scripted.generations))
    scripted.say(TextDelta("1 2"), END)
    await eventually(lambda: not window.workspace.current.is_running)
    menu = entries(window, window.chat.column.views[-1])
    assert menu.actions()[-1].text() == "Delete"
    proceed = next(one for one in menu.actions() if one.text() == "Continue Past It")
    assert proceed.shortcut().toString() == "Ctrl+Shift+Return"
    choose(window, window.chat.column.views[-1], "Inspect")
    assert window.others.inspector.isVisible()
    window.others.inspector.close()
    proceed.trigger()
    await eventually(lambda: len(scripted.generations) == 2)
    scripted.say(TextDelta(" 3"), END)
    await eventually(lambda: not window.workspace.current.is_running)


async def test_code_is_copied_from_the_menu_at_its_block(window: MainWindow) -> None:
    answer = (await talk(window))[-1]
    assert isinstance(answer, AnswerView)
    text = answer.text_view
    text.set_markdown("One\n\n```\na = 1\n```\n\nTwo\n\n```\nb = 2\n```\n")
    await eventually(lambda: len(text.copy_buttons) == 2)
    blocks = [each for each in text.decorations if each.kind == "code"]
    for block, code in zip(blocks, ("a = 1", "b = 2"), strict=True):
        place = text.viewport().mapToGlobal(text.area(block).center().toPoint())
        listed = window.chat.handling.entries(answer, place)
        assert len([each for each in listed if each is not None]) <= 12
        (copy,) = (e for e in listed if isinstance(e, Command) and e.label == "Copy Code")
        copy.run()
        assert QApplication.clipboard().text().strip() == code
    beside = window.chat.handling.entries(answer, text.viewport().mapToGlobal(QPoint(1, 1)))
    assert not any(isinstance(e, Command) and e.label == "Copy Code" for e in beside)


async def test_table_is_copied_from_the_menu_at_its_place(window: MainWindow) -> None:
    answer = (await talk(window))[-1]
    assert isinstance(answer, AnswerView)
    text = answer.text_view
    text.set_markdown("```\na = 1\n```\n\n|a|b|\n|-|-|\n|1|2|\n")
    await eventually(lambda: len(text.copy_buttons) == 1)
    [table] = [each for each in text.decorations if each.kind == "table"]
    place = text.viewport().mapToGlobal(text.area(table).center().toPoint())
    listed = window.chat.handling.entries(answer, place)
    (copy,) = (e for e in listed if isinstance(e, Command) and e.label.startswith("Copy T"))
    copy.run()
    copied = QApplication.clipboard().mimeData()
    assert copied.text() == "a\tb\n1\t2"
    assert "<table" in copied.html()
