"""Which conversations stay in memory."""

import asyncio
import gc
import weakref
from unittest.mock import AsyncMock

import pytest
from PySide6.QtCore import QCoreApplication, QEvent

from app.store.conversation_store import SqliteConversationStore
from tests.support.answers.said import FINISHED
from tests.ui.chat.session.conftest import COUNT, every, loaded, said, show
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.session.open_conversations import MAX_OPEN
from ui.chat.session.workspace import Workspace
from ui.records.conversations import Conversation
from ui.records.messages import runs_of
from ui.records.runs import Run


async def test_conversations_that_are_not_shown_leave_the_memory(
    workspace: Workspace, store: SqliteConversationStore
) -> None:
    first, *others = every(workspace)[:COUNT]
    await show(workspace, first)
    question = weakref.ref(first.messages[0])
    opened = weakref.ref(workspace.current)
    for conversation in others:
        await show(workspace, conversation)
    await eventually(lambda: len(loaded(workspace)) <= MAX_OPEN)
    assert not first.is_loaded
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    assert question() is None
    assert opened() is None
    await show(workspace, first)
    assert first.messages[0].text.startswith("question ")
    assert len(first.messages) == 2


async def test_a_conversation_that_is_being_answered_stays(
    workspace: Workspace, store: SqliteConversationStore, scripted: ScriptedEngine
) -> None:
    await eventually(lambda: workspace.models.stage == "ready")
    running, *others = every(workspace)
    await show(workspace, running)
    assert workspace.send("Go")
    await eventually(lambda: bool(scripted.generations))
    for conversation in others:
        await show(workspace, conversation)
    await eventually(lambda: len(loaded(workspace)) <= MAX_OPEN + 1)
    assert running.is_loaded
    assert running.is_running
    scripted.say(FINISHED)
    await eventually(lambda: not running.is_loaded)


async def test_conversations_that_are_not_in_the_store_stay_in_memory(
    workspace: Workspace, store: SqliteConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsaved, *others = every(workspace)
    kept = store.is_saved
    monkeypatch.setattr(store, "is_saved", lambda one: one is not unsaved and kept(one))
    await show(workspace, unsaved)
    for conversation in others:
        await show(workspace, conversation)
    await eventually(lambda: len(loaded(workspace)) <= MAX_OPEN + 1)
    assert unsaved.is_loaded


async def test_a_copy_stays_whole_while_others_leave_the_memory(
    workspace: Workspace, store: SqliteConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = workspace.current.conversation
    for message in said(99, messages=120).messages:
        original.add(message)
    store.save_messages(original, original.messages)
    copies: list[Conversation] = []
    recorded: list[Run] = []
    monkeypatch.setattr(workspace.traces, "copy", lambda runs, _: recorded.extend(runs))
    workspace.files.added.connect(copies.append)
    with monkeypatch.context() as patched:  # a disk that writes each part at once
        patched.setattr(store, "flush", AsyncMock())
        patched.setattr(store, "is_saved", lambda _: True)
        workspace.files.duplicate(original)
        while not copies:  # answers begin and end meanwhile
            workspace.in_memory.release_unseen()
            await asyncio.sleep(0)
    [copy] = copies
    assert len(recorded) == len(runs_of(original.messages))
    await store.fill(copy)
    assert len(copy.messages) == len(original.messages)
