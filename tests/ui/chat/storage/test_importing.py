"""Imports of any size never hold up the main thread, and what cannot be imported says why."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore
from tests.ui.chat.storage.conftest import Turns, Use, loaded, said
from tests.ui.driving import eventually
from ui.chat.session.open_conversations import MOST_OPEN
from ui.chat.session.workspace import Workspace
from ui.chat.storage import conversation_imports as library
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_json
from ui.records.exchange.found import FoundConversations
from ui.records.messages import ConversationMessage


def test_a_long_import_lets_the_window_go_on_and_leaves_the_memory(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.json"
    many = [said(100 + number, 2) for number in range(20)]
    path.write_text(conversations_json([said(99, 600), *many]), encoding="utf-8")

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        turns, counts, sizes, threads = Turns(), [], [], []
        real_save, real_read = store.save_messages, library.find_conversations

        def save(conversation: Conversation, messages: Sequence[ConversationMessage]) -> None:
            counts.append(turns.count)
            sizes.append(len(messages))
            real_save(conversation, messages)

        def read(path: Path, most_bytes: int) -> FoundConversations:
            threads.append(threading.get_ident())
            return real_read(path, most_bytes)

        monkeypatch.setattr(store, "save_messages", save)
        monkeypatch.setattr(library, "find_conversations", read)
        workspace.files.import_from(path)
        await workspace.files.finish()
        await turns.end()
        assert threads != [threading.get_ident()]
        assert max(sizes) <= 50
        assert sum(sizes) == 640
        assert len(set(counts)) == len(counts), "the window's loop turned between the steps"
        await eventually(lambda: len(loaded(workspace)) <= MOST_OPEN)

    use(steps)


def test_an_import_that_this_computer_s_memory_cannot_hold_is_refused_in_words(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = conversations_json([said(1, 2)])
    too_large, too_wide, fitting = (tmp_path / f"{name}.json" for name in ("large", "wide", "fit"))
    most = len(text.encode()) + 400
    too_large.write_text(text + " " * 500)
    too_wide.write_text(text + " " * 100 + "👋")
    fitting.write_text(text)
    monkeypatch.setattr(library, "_most_bytes", lambda: most)

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        refused: list[str] = []
        workspace.files.refused.connect(refused.append)
        before = workspace.conversations.rowCount()
        for path in (too_large, too_wide):
            workspace.files.import_from(path)
            await workspace.files.finish()
        assert "large.json is too large: this computer can import files of up to" in refused[0]
        assert "wide.json is not a file of conversations: it takes too much memory" in refused[1]
        assert workspace.conversations.rowCount() == before
        workspace.files.import_from(fitting)
        await workspace.files.finish()
        assert len(refused) == 2
        assert workspace.conversations.rowCount() == before + 1

    use(steps)


def test_a_pipe_instead_of_an_archive_blocks_nothing(use: Use, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        refused: list[str] = []
        workspace.files.refused.connect(refused.append)
        workspace.files.import_from(tmp_path / "pipe.json")
        await workspace.files.finish()
        assert refused == ["pipe.json could not be read: it is not a regular file."]

    use(steps)
