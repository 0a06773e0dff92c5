"""The whole window on the real engine and the demo model."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QLineEdit,
)
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from engine.library.local_models import ModelFolders
from engine.values.events import PromptProgress
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, facts_text, opened
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_foot import ReasonLine
from ui.kit.theme import Theme
from ui.records.runs import Run
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme, demo_model_path: Path) -> Living[MainWindow]:
    def make() -> MainWindow:
        folders = ModelFolders(bundled=demo_model_path)
        window = main_window(engine, theme, model_folders=folders)
        window.pane.open(window.stop_panel)
        settings = window.workspace.current.conversation.settings
        window.workspace.change_settings(replace(settings, max_tokens=400))
        return window

    return enter(lambda: opened(make()))


async def answered(window: MainWindow) -> None:
    await eventually(lambda: not window.workspace.current.is_running)


def answers(window: MainWindow) -> list[AnswerView]:
    return [view for view in window.findChildren(AnswerView) if not view.isHidden()]


def reason_of(view: AnswerView) -> ReasonLine:
    (line,) = view.findChildren(ReasonLine)
    return line


async def test_sample_stop_ends_an_answer_visibly(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.mouseClick(window.chat.welcome.buttons[-1], Qt.MouseButton.LeftButton)
    await answered(window)
    (view,) = answers(window)
    assert view.text_view.toPlainText().rstrip() == "1\n2\n3\n4\n5"
    assert view.run.text == "1\n2\n3\n4\n5\n"
    assert "Stopped by “6”" in reason_of(view).text()
    panel = window.stop_panel.verdict
    assert panel.sentence.text() == "Stopped by “6”"
    facts = facts_text(panel)
    assert "Matched" not in facts
    assert panel.detail.text() == "after 10 characters, token 11"
    assert "then cut off: 6" in panel.tail.accessibleName()
    assert "Stop list: “6”" in facts
    (entry,) = window.workspace.current.stops.entries()
    assert entry.stop.text == "6"


async def test_a_stop_list_is_edited_with_the_keyboard_alone(
    window: MainWindow, qtbot: QtBot
) -> None:
    editor, stops = window.stop_panel.editor, window.workspace.current.stops
    qtbot.keyClicks(editor.input, r"3\n4")
    qtbot.keyClick(editor.input, Qt.Key.Key_Return)
    qtbot.keyClicks(editor.input, "END")
    qtbot.keyClick(editor.input, Qt.Key.Key_Return)
    assert [entry.stop.text for entry in stops.entries()] == ["3\n4", "END"]
    qtbot.keyClick(editor.table, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    qtbot.keyClick(editor.table, Qt.Key.Key_Space)
    assert [e.stop.text for e in stops.entries() if e.is_enabled] == ["3\n4"]
    qtbot.keyClick(editor.table, Qt.Key.Key_F2)
    line = editor.table.findChild(QLineEdit)
    assert line is not None
    qtbot.keyClicks(line, r"\t")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    await eventually(lambda: stops.entries()[0].stop.text == "\t")
    qtbot.keyClick(editor.table, Qt.Key.Key_Delete)
    stops.undo_stack.undo()
    assert len(stops.entries()) == 2


async def test_short_prompt_has_no_figures_in_the_card(window: MainWindow) -> None:
    card, run = window.stop_panel.verdict, Run()
    run.apply(PromptProgress(0, 42, 0))
    card.show_run(run)
    assert card.sentence.text() == "Reading…"
    assert "42" not in card.detail.text()
