"""A workspace on a file with more conversations than stay in memory."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.answers.said import finished_run
from tests.support.outside.tool_hosts import no_tools
from tests.support.shown import SilentServer
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually
from ui.chat.session.open_conversations import MOST_OPEN
from ui.chat.session.workspace import Workspace
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage

Steps = Callable[[Workspace, SqliteConversationStore], Coroutine[Any, Any, None]]

Use = Callable[[Steps], None]

COUNT = MOST_OPEN + 4


def said(number: int, messages: int = 2) -> Conversation:
    made = Conversation(f"Talk {number}", updated_at=float(number))
    for place in range(messages // 2):
        made.add(ConversationMessage("user", f"question {number}.{place}"))
        made.add(
            ConversationMessage("assistant", "1 2 3", finished_run(f"answer {number}.{place}"))
        )
    return made


@pytest.fixture
def use(run: RunOnLoop, scripted: ScriptedEngine, tmp_path: Path) -> Use:
    """Use a workspace on a file with some conversations, as it is after a start."""

    def use_workspace(steps: Steps) -> None:
        async def whole() -> None:
            store = await open_store(tmp_path / "conversations.db")
            for conversation in [said(number) for number in range(COUNT)]:
                store.save(conversation)
                store.save_messages(conversation, list(conversation.tree))
            await store.close()
            store = await open_store(tmp_path / "conversations.db")
            workspace = Workspace(scripted, SilentServer(), store, no_tools())  # type: ignore[arg-type]
            try:
                await steps(workspace, store)
            finally:
                await workspace.finish()
                workspace.deleteLater()
                await store.close()

        run(whole())

    return use_workspace


def every(workspace: Workspace) -> list[Conversation]:
    conversations = workspace.conversations
    found = [conversations.at(row) for row in range(conversations.rowCount())]
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
