"""A conversation that is still being loaded can be deleted, and stays picked."""

import asyncio

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from tests.ui.keyboard import click, keyboard, row
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.store import MemoryConversationStore


class SlowStore(MemoryConversationStore):
    """Holds conversations that are loaded only when the test lets them."""

    def __init__(self, *conversations: Conversation) -> None:
        super().__init__()
        self.may_fill = asyncio.Event()
        for one in conversations:
            self.save(one)
        self.deleted: list[Conversation] = []

    async def fill(self, conversation: Conversation) -> None:
        await self.may_fill.wait()
        conversation.fill([])

    def delete(self, conversation: Conversation) -> None:
        super().delete(conversation)
        self.deleted.append(conversation)


@pytest.mark.parametrize("how", ["key", "menu"])
async def test_delete_acts_on_the_selected_conversation_also_while_it_is_loaded(
    scripted: ScriptedEngine, theme: Theme, how: str
) -> None:
    first, second, third = (Conversation(f"c{n}", updated_at=10 - n) for n in range(3))
    second.unload("words")
    third.unload("words")
    store = SlowStore(first, second, third)
    window = main_window(scripted, theme, store=store)
    async with shown(window, quits=True):
        window.activateWindow()
        await eventually(window.isActiveWindow)
        assert window.workspace.current.conversation is first
        click(window.sidebar.list.viewport(), row(window, 1))
        assert window.workspace.current.conversation is first
        if how == "key":
            window.sidebar.list.setFocus()
            QTest.keyClick(keyboard(), Qt.Key.Key_Delete)
        else:
            QTest.keyClick(
                keyboard(),
                Qt.Key.Key_Backspace,
                Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier,
            )
        assert store.deleted == [second]
        assert window.workspace.selected is third
        store.may_fill.set()
        await eventually(lambda: window.workspace.current.conversation is third)
        assert window.sidebar.list.currentIndex().row() == 1


async def test_a_conversation_still_being_loaded_stays_wanted_when_others_change(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    first, second = Conversation("c0", updated_at=2), Conversation("c1", updated_at=1)
    second.unload("words")
    store = SlowStore(first, second)
    window = main_window(scripted, theme, store=store)
    async with shown(window, quits=True):
        click(window.sidebar.list.viewport(), row(window, 1))
        conversations = window.workspace.conversations
        conversations.insert(Conversation("new"))  # rows move while the pick is loaded
        conversations.touch(first)
        store.may_fill.set()
        await eventually(lambda: window.workspace.current.conversation is second)


async def test_what_comes_next_is_shown_at_once_after_a_deletion_and_ctrl_z_brings_back_the_deleted(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    said = [ConversationMessage("user", "What was said")]
    first, second = Conversation("c0", said, updated_at=2), Conversation("c1", updated_at=1)
    second.unload("words")
    store = SlowStore(first, second)
    window = main_window(scripted, theme, store=store)
    async with shown(window, quits=True):
        window.activateWindow()
        await eventually(window.isActiveWindow)
        assert window.chat.column.isVisible()
        window.sidebar.delete_current()
        assert not window.chat.column.isVisible()
        assert window.chat.header.title.text() == "c1"
        store.may_fill.set()
        await eventually(lambda: window.workspace.current.conversation is second)
        assert keyboard() is window.chat.composer.input
        QTest.keyClick(keyboard(), Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        await eventually(lambda: window.workspace.current.conversation is first)
        assert window.chat.column.isVisible()
