"""A workspace on a file with more conversations than stay in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.answers.said import finished_run
from tests.support.kept import model_library
from tests.support.outside.tool_hosts import no_tools
from tests.ui.driving import Enter, Living, ScriptedEngine, eventually
from ui.chat.session.open_conversations import MAX_OPEN
from ui.chat.session.workspace import Workspace
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage

COUNT = MAX_OPEN + 4


def said(number: int, messages: int = 2) -> Conversation:
    made = Conversation(f"Talk {number}", updated_at=float(number))
    for place in range(messages // 2):
        made.add(ConversationMessage("user", f"question {number}.{place}"))
        made.add(
            ConversationMessage("assistant", "1 2 3", finished_run(f"answer {number}.{place}"))
        )
    return made


@asynccontextmanager
async def workspace_on(
    scripted: ScriptedEngine, path: Path
) -> AsyncIterator[tuple[Workspace, SqliteConversationStore]]:
    """A workspace on a file, as it is after a start."""
    store = await open_store(path)
    library = model_library(scripted)
    workspace = Workspace(scripted, library, store, no_tools())
    try:
        yield workspace, store
    finally:
        await workspace.finish()
        workspace.deleteLater()
        await store.aclose()


@asynccontextmanager
async def with_conversations(
    scripted: ScriptedEngine, path: Path
) -> AsyncIterator[tuple[Workspace, SqliteConversationStore]]:
    store = await open_store(path)
    for conversation in [said(number) for number in range(COUNT)]:
        store.save(conversation)
        store.save_messages(conversation, list(conversation.tree))
    await store.aclose()
    async with workspace_on(scripted, path) as started:
        yield started


@pytest.fixture
def started(
    enter: Enter, scripted: ScriptedEngine, tmp_path: Path
) -> Living[tuple[Workspace, SqliteConversationStore]]:
    """A workspace on a file with some conversations."""
    return enter(lambda: with_conversations(scripted, tmp_path / "conversations.db"))


@pytest.fixture
def workspace(
    enter: Enter, started: Living[tuple[Workspace, SqliteConversationStore]]
) -> Living[Workspace]:
    return enter(lambda: nullcontext(started.value[0]))


@pytest.fixture
def store(
    enter: Enter, started: Living[tuple[Workspace, SqliteConversationStore]]
) -> Living[SqliteConversationStore]:
    return enter(lambda: nullcontext(started.value[1]))


def every(workspace: Workspace) -> list[Conversation]:
    conversations = workspace.conversations
    found = conversations.every()
    return [conversation for conversation in found if conversation.has_messages]


def loaded(workspace: Workspace) -> list[Conversation]:
    return [one for one in every(workspace) if one.is_loaded]


async def show(workspace: Workspace, conversation: Conversation) -> None:
    workspace.open(conversation)
    await eventually(lambda: workspace.current.conversation is conversation)


class Turns:
    """Counts how often the event loop turned."""

    def __init__(self) -> None:
        self.count = 0
        self._task = asyncio.get_running_loop().create_task(self._turn())

    async def _turn(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
