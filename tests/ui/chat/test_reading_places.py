"""A conversation is shown where it was read last, also after a restart."""

import asyncio
from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, ReadingPlace
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState
from ui.window.main_window import MainWindow


def talk(title: str) -> Conversation:
    conversation = Conversation(title)
    for number in range(30):
        conversation.add(ConversationMessage("user", f"question {number}"))
        text = f"answer {number}\n\n" + "more words of it\n\n" * 8
        conversation.add(
            ConversationMessage("assistant", text, Run(text=text, state=RunState.WRITTEN))
        )
    return conversation


def window_with(
    scripted: ScriptedEngine, theme: Theme, store: SqliteConversationStore
) -> MainWindow:
    window = main_window(scripted, theme, store=store)
    window.resize(1000, 700)
    return window


def open_among(window: MainWindow, row: int) -> None:
    """Open the conversation of a row of the list, among forty more; -1 is the last row."""
    for number in range(40):
        window.workspace.take_in(talk(f"talk {number}"))
    rows = window.sidebar.rows
    conversation = rows.at(row % rows.rowCount())
    assert isinstance(conversation, Conversation)
    window.workspace.open(conversation)


def is_in_sight(window: MainWindow) -> bool:
    """Whether the current row of the list is wholly in sight."""
    listed = window.sidebar.list
    place = listed.visualRect(listed.currentIndex())
    return place.height() > 0 and listed.viewport().rect().contains(place)


def seen(window: MainWindow) -> ConversationMessage:
    conversation = window.workspace.current.conversation
    return conversation.messages[window.chat.column.first_seen]


async def test_the_place_is_there_again_after_another_conversation_and_after_a_restart(
    scripted: ScriptedEngine, theme: Theme, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    window = window_with(scripted, theme, store)
    async with shown(window, quits=True):
        workspace, column = window.workspace, window.chat.column
        first, second = talk("first"), talk("second")
        workspace.take_in(second)
        workspace.take_in(first)
        column.go_to_message(first.messages[20])
        await asyncio.sleep(0.1)
        place = seen(window)
        assert place in first.messages[18:22]
        workspace.open(second)
        assert column.jump.isHidden(), "a conversation that nobody scrolled begins at its end"
        assert first.place is not None
        workspace.open(first)
        await eventually(lambda: seen(window) is place)
    await store.close()
    store = await open_store(tmp_path / "conversations.db")
    window = window_with(scripted, theme, store)
    async with shown(window, quits=True):
        opened = window.workspace.current.conversation
        assert opened.title == "first"
        await eventually(lambda: seen(window).text == place.text)
        window.chat.column.jump_to_latest()
        await eventually(lambda: opened.place is None)
    await store.close()


async def test_the_open_conversation_stays_in_sight_in_a_list_that_becomes_lower(
    window: MainWindow,
) -> None:
    window.resize(1000, 800)
    open_among(window, -1)
    listed = window.sidebar.list
    last = window.sidebar.rows.rowCount() - 1
    await eventually(lambda: listed.currentIndex().row() == last and is_in_sight(window))
    height = listed.height()
    window.resize(1000, 640)
    await eventually(lambda: listed.height() < height)
    assert is_in_sight(window)
    listed.verticalScrollBar().setValue(0)
    window.resize(1000, 600)
    assert listed.verticalScrollBar().value() == 0, "a person looks at the others"


async def test_a_place_whose_message_is_gone_is_ignored(
    scripted: ScriptedEngine, theme: Theme, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    window = window_with(scripted, theme, store)
    async with shown(window, quits=True):
        conversation = talk("first")
        conversation.place = ReadingPlace("gone", 0.5)
        window.workspace.take_in(conversation)
        assert window.chat.column.jump.isHidden()
    await store.close()


@pytest.mark.parametrize("goes_on", [True, False])
async def test_closing_the_window_asks_nothing_and_loses_nothing(
    scripted: ScriptedEngine, theme: Theme, tmp_path: Path, goes_on: bool
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    window = window_with(scripted, theme, store)
    window.runs_in_background = lambda: goes_on
    async with shown(window, quits=True):
        workspace = window.workspace
        conversation = talk("first")
        workspace.take_in(conversation)
        window.chat.composer.set_text("half a sen")
        window.close()
        await eventually(lambda: not window.isVisible())
        assert conversation.draft == "half a sen"
    await store.close()
    store = await open_store(tmp_path / "conversations.db")
    assert [one.draft for one in store.load_all() if one.title == "first"] == ["half a sen"]
    await store.close()
