"""Tab goes through the main window as it is read, whatever a conversation adds to it."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget

from engine.engine import Engine
from engine.values.request import TraceLevel
from tests.support.answers.said import finished_run
from tests.support.shown import whole_window
from tests.ui.driving import Enter, Living, eventually, opened
from tests.ui.walks import answered, walked, wrong
from ui.kit.theme import Theme
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.tool_calls import CallProgress
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        window = whole_window(engine, theme)
        window.workspace.traces.level = TraceLevel.FULL
        window.stop_panel.show()
        window.resize(1280, 900)
        return window

    return enter(lambda: opened(make(), quits=True, is_ready=True))


async def test_no_part_of_a_conversation_becomes_a_separate_window(window: MainWindow) -> None:
    class Watch(QObject):
        seen: ClassVar[list[str]] = []

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
            is_shown = event.type() == QEvent.Type.Show
            if is_shown and isinstance(watched, QWidget) and watched.isWindow():
                self.seen.append(type(watched).__name__)
            return False

    watch = Watch()
    application = QApplication.instance()
    assert application is not None
    application.installEventFilter(watch)
    try:
        await answered(window)
        window.chat.composer.attachments.show_files([Attachment("a.txt", "x")])
        await answered(window)
    finally:
        application.removeEventFilter(watch)
    assert watch.seen == []


async def test_tab_reads_the_main_window(window: MainWindow) -> None:
    assert await wrong(window) == []
    await answered(window)
    row = window.chat.composer.attachments
    row.files = (Attachment("a.txt", "x"), Attachment("b.txt", "y"))
    row._show()
    assert await wrong(window) == []
    seen = walked(window)
    columns = [
        next(c for c in (window.sidebar, window.chat, window.stop_panel) if c.isAncestorOf(one))
        for one in seen
        if one is not window.menuBar()
    ]
    turns = [a for a, b in zip(columns, [None, *columns], strict=False) if a is not b]
    assert turns == [window.sidebar, window.chat, window.stop_panel]


async def test_what_a_conversation_adds_comes_where_it_stands(window: MainWindow) -> None:
    await answered(window)
    seen = walked(window)
    in_chat = [one for one in seen if window.chat.isAncestorOf(one)]
    messages = [one for one in in_chat if window.chat.column.isAncestorOf(one)]
    assert messages
    assert seen.index(messages[-1]) < seen.index(window.chat.composer.input)
    assert seen.index(window.chat.composer.input) < seen.index(window.chat.composer.stops)


async def find(window: MainWindow) -> None:
    window.chat.finding.bar.begin("1")


async def edit_question(window: MainWindow) -> None:
    window.chat.edit_last_question()


async def ask_for_permission(window: MainWindow) -> None:
    run = finished_run(is_calling=True)
    run.progress["c1"] = CallProgress("sums", "add", needs_user=True)
    said = [ConversationMessage("user", "Add"), ConversationMessage("assistant", run=run)]
    window.workspace.take_in(Conversation("Sums", said))


async def answer_side_by_side(window: MainWindow) -> None:
    window.comparing.ask()
    dialog = window.comparing.dialog
    assert dialog is not None
    dialog.buttons.accepted.emit()
    await eventually(lambda: bool(window.chat.sides.columns))
    await eventually(lambda: not window.workspace.current.is_running)


async def delete_conversation(window: MainWindow) -> None:
    window.sidebar.delete_current()


async def search(window: MainWindow) -> None:
    window.sidebar.search()
    window.sidebar.search_field.setText("Count")


async def fail_to_load(window: MainWindow) -> None:
    window.workspace.models.begin_to_load(Path("/nowhere/model"))
    await eventually(window.chat.model_problem.isVisible)


STATES = (find, edit_question, ask_for_permission, answer_side_by_side, delete_conversation,
          search, fail_to_load)  # fmt: skip


@pytest.mark.parametrize("enter_state", STATES, ids=lambda one: one.__name__)
async def test_tab_reads_what_appears_in_the_main_window_and_its_controls_are_named(
    window: MainWindow, enter_state: Callable[[MainWindow], Coroutine[Any, Any, None]]
) -> None:
    await answered(window)
    await enter_state(window)
    assert await wrong(window) == []
