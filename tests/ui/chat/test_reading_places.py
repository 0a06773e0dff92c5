"""A conversation is shown where it was read last, also after a restart."""

import asyncio
from pathlib import Path

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.window.main_window import MainWindow


def talk(title: str) -> Conversation:
    conversation = Conversation(title)
    for number in range(30):
        conversation.add(ConversationMessage("user", f"question {number}"))
        text = f"answer {number}\n\n" + "more words of it\n\n" * 8
        conversation.add(ConversationMessage("assistant", text, Run(text=text, state="written")))
    return conversation


def window_with(
    scripted: ScriptedEngine, theme: Theme, store: SqliteConversationStore
) -> MainWindow:
    window = main_window(scripted, theme, store=store)
    window.resize(1000, 700)
    return window


def seen(window: MainWindow) -> ConversationMessage:
    conversation = window.workspace.current.conversation
    return conversation.messages[window.chat.column.first_seen]


async def test_scroll_position_survives_another_conversation_and_a_restart(
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
        assert first.reading_position is not None
        workspace.open(first)
        await eventually(lambda: seen(window) is place)
    await store.aclose()
    store = await open_store(tmp_path / "conversations.db")
    window = window_with(scripted, theme, store)
    async with shown(window, quits=True):
        opened = window.workspace.current.conversation
        assert opened.title == "first"
        await eventually(lambda: seen(window).text == place.text)
        window.chat.column.jump_to_latest()
        await eventually(lambda: opened.reading_position is None)
    await store.aclose()
