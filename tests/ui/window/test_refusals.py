"""What a window says and keeps when it cannot do what was asked: nothing written is lost."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.messages.question_view import QuestionView
from ui.kit.theme import Theme
from ui.records.attachments import Attachment
from ui.records.runs import RunState
from ui.records.store import Problem
from ui.window.main_window import MainWindow

# More than the demo model's context of 32,768 tokens holds.
TOO_LONG = "one two three four five six seven eight " * 5_000


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme), is_ready=True))


def last_state(window: MainWindow, row: int = 0) -> RunState | None:
    conversation = window.workspace.conversations.every()[row]
    run = conversation.messages[-1].run if conversation.messages else None
    return None if run is None else run.state


def paste_and_send(window: MainWindow, qtbot: QtBot, text: str) -> None:
    """Send before anything was counted."""
    composer = window.chat.composer
    composer.set_text(text)
    qtbot.keyClick(composer.input, Qt.Key.Key_Return)


async def test_a_long_message_is_counted_before_it_is_sent(
    window: MainWindow, qtbot: QtBot
) -> None:
    composer, file = window.chat.composer, Attachment("notes.txt", "Some notes\n")
    composer.attachments.show_files([file])
    paste_and_send(window, qtbot, TOO_LONG)
    await eventually(lambda: "too many" in composer.notice.text())
    assert composer.text == TOO_LONG
    assert composer.attachments.files == (file,)
    assert not composer.action.isEnabled()
    assert window.workspace.current.conversation.messages == []
    paste_and_send(window, qtbot, "Summarise.")
    await eventually(lambda: last_state(window) is not None)
    assert composer.message == ""


async def test_a_message_that_was_not_sent_is_kept_once_where_it_can_be_sent_again(
    window: MainWindow, qtbot: QtBot
) -> None:
    current, composer = window.workspace.current, window.chat.composer
    assert window.workspace.send(TOO_LONG)
    await eventually(lambda: last_state(window) == "refused")
    await eventually(lambda: not current.is_running)
    assert [one.role for one in current.conversation.messages] == ["user", "assistant"]
    assert composer.text == current.conversation.draft == ""
    window.chat.edit_last_question()
    (question,) = window.findChildren(QuestionView)
    assert question.editor is not None
    question.editor.input.setPlainText("Short")
    qtbot.keyClick(question.editor.input, Qt.Key.Key_Return)
    await eventually(lambda: last_state(window) == "finished")
    assert [one.typed for one in current.conversation.messages if one.run is None] == ["Short"]


async def test_a_failed_load_is_reported_above_the_chat_if_another_model_stays(
    window: MainWindow, tmp_path: Path, demo_model_path: Path
) -> None:
    bar, model = window.chat.model_problem, window.workspace.models
    works = model.status().title
    assert bar.isHidden()
    window.workspace.models.load(tmp_path)
    await eventually(bar.isVisible)
    assert bar.sentence.text() == f"{tmp_path.name} couldn’t be loaded. {works} stays loaded."
    assert "config.json is missing" in bar.detail.text()
    assert bar.show_file.isVisible()
    assert not window.chat.get_again.isVisible()
    assert model.stage == "ready"
    bar.hide()
    model.changed.emit()
    assert bar.isHidden()
    window.workspace.models.load(demo_model_path)
    await eventually(bar.isHidden)
    await eventually(lambda: model.stage == "ready")
    assert bar.isHidden()


async def test_settings_that_cannot_be_saved_are_reported_in_the_window(
    window: MainWindow,
) -> None:
    window.preferences.keeping_failed.emit("Your settings could not be saved: disk full.")
    assert window.chat.problem.isVisible()
    assert "disk full" in window.chat.problem.sentence.text()


async def test_unsaved_settings_do_not_hide_unsaved_conversations(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsaved = Problem("Your conversations are not being saved.", "The disk is full.")
    monkeypatch.setattr(type(window.workspace.store), "problem", property(lambda _: unsaved))
    window.preferences.keeping_failed.emit("Your settings could not be saved: disk full.")
    bar = window.chat.problem
    assert bar.sentence.text() == "Your conversations are not being saved."
    assert bar.detail.text() == "The disk is full. Your settings could not be saved: disk full."
