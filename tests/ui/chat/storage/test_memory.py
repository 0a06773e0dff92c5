"""Which conversations stay in memory."""

import gc
import weakref

import pytest
from PySide6.QtCore import QCoreApplication, QEvent

from app.store.conversation_store import SqliteConversationStore
from tests.support.answers.said import FINISHED
from tests.ui.chat.storage.conftest import COUNT, Use, every, loaded, show
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.session.open_conversations import MOST_OPEN
from ui.chat.session.workspace import Workspace


def test_conversations_that_are_not_shown_leave_the_memory(use: Use) -> None:
    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        first, *others = every(workspace)[:COUNT]
        await show(workspace, first)
        question = weakref.ref(first.messages[0])
        opened = weakref.ref(workspace.current)
        for conversation in others:
            await show(workspace, conversation)
        await eventually(lambda: len(loaded(workspace)) <= MOST_OPEN)
        assert not first.is_loaded
        assert first.preview.startswith("answer ")
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        assert question() is None
        assert opened() is None
        await show(workspace, first)
        assert first.messages[0].text.startswith("question ")
        assert len(first.messages) == 2

    use(steps)


def test_a_conversation_that_is_being_answered_stays(use: Use, scripted: ScriptedEngine) -> None:
    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        await eventually(lambda: workspace.model.stage == "ready")
        running, *others = every(workspace)
        await show(workspace, running)
        assert workspace.send("Go")
        await eventually(lambda: bool(scripted.generations))
        for conversation in others:
            await show(workspace, conversation)
        await eventually(lambda: len(loaded(workspace)) <= MOST_OPEN + 1)
        assert running.is_loaded
        assert running.is_running
        scripted.say(FINISHED)
        await eventually(lambda: not running.is_loaded)

    use(steps)


def test_conversations_that_are_not_in_the_store_stay_in_memory(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        unsaved, *others = every(workspace)
        kept = store.is_kept
        monkeypatch.setattr(store, "is_kept", lambda one: one is not unsaved and kept(one))
        await show(workspace, unsaved)
        for conversation in others:
            await show(workspace, conversation)
        await eventually(lambda: len(loaded(workspace)) <= MOST_OPEN + 1)
        assert unsaved.is_loaded

    use(steps)
