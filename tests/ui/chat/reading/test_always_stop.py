"""Always Stop Here: selected text of an answer becomes a stop, as the model wrote it."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QTextEdit

from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopScope
from engine.values.events import Finished, Timing, Usage
from tests.support.answers.said import finished_run
from tests.ui.driving import eventually, facts_text
from tests.ui.keyboard import keyboard
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.stop_selection import stop_selection, written_for
from ui.kit.commands import fill_menu
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.stops.stop_lists import DEFAULT_LIST
from ui.window.main_window import MainWindow

TEXT = "First **bold** words.\n\n- one\n- two\n"
ENDED = Finished(
    StopInfo(StopKind.STOP_STRING, "\n\nUser:", text_offset=len(TEXT), dropped="\n\nUser:"),
    Usage(7, 0, 12),
    Timing(),
)


async def answer(window: MainWindow, *, thinking: str = "", **fields: object) -> AnswerView:
    run = finished_run(TEXT, thinking=thinking, thinking_s=None, tool_calls=[], **fields)
    run.finished = ENDED
    run.stops_from = DEFAULT_LIST
    messages = [ConversationMessage("user", "Go"), ConversationMessage("assistant", TEXT, run)]
    window.workspace.take_in(Conversation("One", messages))
    await eventually(lambda: len(window.chat.column.views) == 2)
    view = window.chat.column.views[1]
    assert isinstance(view, AnswerView)
    return view


def select(text: QTextEdit, shown: str) -> None:
    document = text.toPlainText()
    cursor = text.textCursor()
    cursor.setPosition(document.index(shown))
    cursor.setPosition(document.index(shown) + len(shown), QTextCursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)


def stop_here(window: MainWindow) -> None:
    control_alt = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    QTest.keyClick(window, Qt.Key.Key_S, control_alt)


def texts(window: MainWindow) -> list[str]:
    return [entry.stop.text for entry in window.workspace.current.stops.entries()]


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        (" words.", " words."),
        ("bold words", "bold** words"),
        ("words.\none", "words.\n\n- one"),
        ("st bo", "st **bo"),
        ("two\nfirst\nnext", "two\n\n1. first\n2. next"),
        ("Firstbold", ""),
        ("\n \n", ""),
        ("never written", ""),
    ],
)
def test_selected_text_is_found_as_the_model_wrote_it(shown: str, written: str) -> None:
    assert written_for(shown, f"{TEXT}\n1. first\n2. next") == written


async def test_selected_text_joins_the_stop_list_and_can_be_undone(window: MainWindow) -> None:
    view = await answer(window)
    select(view.text_view, " words")
    stop_here(window)
    assert texts(window) == [" words"]
    table = window.stop_panel.editor.table
    assert window.stop_panel.isVisible()
    assert keyboard() is table
    assert table.currentIndex().row() == 0
    bar = window.chat.handling.undo_bar
    assert bar.message.text() == "“·words” was added to the stop list"
    bar.button.click()
    assert texts(window) == []


async def test_stop_that_is_there_is_named_or_switched_on(window: MainWindow) -> None:
    view, stops = await answer(window), window.workspace.current.stops
    stops.replace_all([StopEntry.of("a"), StopEntry.of("words", is_enabled=False)], "")
    select(view.text_view, "words")
    stop_here(window)
    assert stops.entries()[1] == StopEntry.of("words")
    stop_here(window)
    assert window.chat.composer.notice.text() == "“words” is already in the stop list."
    assert window.stop_panel.editor.table.currentIndex().row() == 1
    assert len(stops.entries()) == 2


async def test_full_stop_list_says_so_in_the_list(window: MainWindow) -> None:
    view, stops = await answer(window), window.workspace.current.stops
    stops.replace_all([StopEntry.of(str(number)) for number in range(64)], "")
    select(view.text_view, "words")
    stop_here(window)
    assert len(stops.entries()) == 64
    assert "At most 64" in window.stop_panel.editor.message.text()


async def test_stop_from_the_thinking_counts_there(window: MainWindow) -> None:
    view = await answer(window, thinking="Hm, so.")
    view.thinking.head.click()
    select(view.thinking.text_view, ", so")
    stop_here(window)
    (entry,) = window.workspace.current.stops.entries()
    assert entry == StopEntry.of(", so").within(StopScope.TEXT_AND_THINKING)


async def test_raw_text_gives_white_space_and_the_cut_stop_exactly(window: MainWindow) -> None:
    view = await answer(window, thinking="Hm,\nso.")
    view.raw.click()
    raw = view.raw_view
    select(raw, "two⏎\u2028⏎".replace("\u2028", "\n"))
    selection = stop_selection(view)
    assert selection is not None
    assert (selection.text, selection.scope) == ("two\n\n", StopScope.TEXT)
    select(raw, "Hm,⏎")
    selection = stop_selection(view)
    assert selection is not None
    assert (selection.text, selection.scope) == ("Hm,\n", StopScope.TEXT_AND_THINKING)


async def test_menu_offers_lists_of_new_chats_and_needs_a_selection(window: MainWindow) -> None:
    view = await answer(window)

    def entries() -> dict[str, object]:
        menu = QMenu(window)
        fill_menu(menu, window.chat.handling.entries(view))
        return {action.text(): action for action in menu.actions()}

    assert not [name for name in entries() if name.startswith("Always Stop")]
    select(view.text_view, "two")
    assert entries()["Always Stop Here"].isEnabled()
    others = entries()["Always Stop Here In"].menu()
    others.actions()[0].trigger()
    lists = window.workspace.stop_lists
    assert lists.get(DEFAULT_LIST) == (StopEntry.of("two"),)
    window.chat.handling.undo_bar.button.click()
    assert lists.get(DEFAULT_LIST) is None


async def test_verdict_adds_its_selected_text_and_names_the_source(window: MainWindow) -> None:
    window.workspace.stop_lists.keep(DEFAULT_LIST, [StopEntry.of("\n\nUser:")])
    window.pane.open(window.stop_panel)
    await answer(window)
    verdict = window.stop_panel.verdict
    assert "Stop set by: the default list" in facts_text(verdict)
    verdict.heading.click()
    assert verdict.always.accessibleDescription() == "First select the text to stop at."
    verdict.always.click()
    assert texts(window) == []
    verdict.tail.setFocus()
    select(verdict.tail, "two⏎⏎⏎User")
    QTest.keyClick(keyboard(), Qt.Key.Key_Tab)
    assert keyboard() is verdict.always
    QTest.keyClick(keyboard(), Qt.Key.Key_Space)
    assert texts(window) == ["two\n\n\nUser"]
    run = Run()
    verdict.show_run(run)
    assert not verdict.tail.isVisible()
