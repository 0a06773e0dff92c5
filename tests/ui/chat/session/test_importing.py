"""Imports of any size never hold up the main thread, and what cannot be imported says why."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.store.conversation_store import SqliteConversationStore, open_store
from engine.engine import Engine
from tests.support.outside.exports import import_all
from tests.support.shown import main_window, shown
from tests.ui.chat.session.conftest import Turns, loaded, said
from tests.ui.driving import eventually
from ui.chat.session import conversation_imports
from ui.chat.session.open_conversations import MAX_OPEN
from ui.chat.session.workspace import Workspace
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_json
from ui.records.exchange.contents import FileContents
from ui.records.exchange.export_reader import ExportReader
from ui.records.messages import ConversationMessage


async def test_a_long_import_lets_the_window_go_on_and_leaves_the_memory(
    workspace: Workspace,
    store: SqliteConversationStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "many.json"
    many = [said(100 + number, 2) for number in range(8)]
    path.write_text(conversations_json([said(99, 120), *many]), encoding="utf-8")
    turns, counts, sizes = Turns(), [], []
    real_save = store.save_messages

    def save(conversation: Conversation, messages: Sequence[ConversationMessage]) -> None:
        counts.append(turns.count)
        sizes.append(len(messages))
        real_save(conversation, messages)

    monkeypatch.setattr(store, "save_messages", save)
    import_all(workspace.files, path)
    await workspace.files.finish()
    await turns.end()
    assert max(sizes) <= 50
    assert sum(sizes) == 136
    assert len(set(counts)) == len(counts), "the window's loop turned between the steps"
    await eventually(lambda: len(loaded(workspace)) <= MAX_OPEN)


async def test_a_file_is_never_read_on_the_main_thread(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.json"
    path.write_text(conversations_json([said(number, 1) for number in range(3)]), "utf-8")
    threads: list[threading.Thread] = []
    ask = ExportReader._ask

    def noted(reader: ExportReader, question: dict[str, Any]) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return ask(reader, question)

    monkeypatch.setattr(ExportReader, "_ask", noted)
    import_all(workspace.files, path)
    await workspace.files.finish()
    assert len(threads) >= 3, "of its contents, of its conversations, and that there are no more"
    assert threading.main_thread() not in threads


async def test_cancelled_import_keeps_the_conversations_that_came(
    workspace: Workspace, store: SqliteConversationStore, tmp_path: Path
) -> None:
    path = tmp_path / "many.json"
    path.write_text(conversations_json([said(number, 2) for number in range(30)]), "utf-8")
    transfers, outcomes = workspace.files.transfers, []
    before = {one.id for one in workspace.conversations.every()}

    def cancel() -> None:
        if transfers.now is not None and transfers.now.done == 2:
            transfers.cancel()

    transfers.changed.connect(cancel)
    transfers.ended.connect(lambda ended: outcomes.extend(filter(None, [ended.outcome])))
    import_all(workspace.files, path)
    await workspace.files.finish()
    came = [one for one in workspace.conversations.every() if one.id not in before]
    assert 2 <= len(came) < 30
    assert outcomes == [
        f"Cancelled after {len(came)} of 30 conversations from Fullstop; these stay."
    ]
    for conversation in came:
        assert len(await store.read(conversation) or ()) == 2


async def test_import_that_quitting_ends_keeps_whole_conversations(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    path = tmp_path / "many.json"
    path.write_text(conversations_json([said(number, 2) for number in range(400)]), "utf-8")
    store = await open_store(tmp_path / "kept.db")
    async with shown(main_window(engine, theme, store=store), quits=True) as window:
        transfers = window.workspace.files.transfers
        import_all(window.workspace.files, path)
        await eventually(lambda: transfers.now is not None and transfers.now.total > 0)
        await eventually(lambda: transfers.now is not None and transfers.now.done > 2)
    await store.aclose()
    again = await open_store(tmp_path / "kept.db")
    came = [one for one in again.conversations() if one.origin]
    assert 2 < len(came) < 400, "the window does not wait for the rest"
    for conversation in came:
        assert len(await again.read(conversation) or ()) == 2
    await again.aclose()


async def test_what_is_too_large_is_named_and_the_other_conversations_come_in(
    workspace: Workspace,
    store: SqliteConversationStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = conversations_json([said(1, 2)])
    too_large, some = tmp_path / "large.json", tmp_path / "some.json"
    too_large.write_text(text + " " * 500)
    monkeypatch.setattr(conversation_imports, "_MAX_BYTES", len(text.encode()) + 400)
    question = {"author": {"role": "user"}, "content": {"parts": ["Hello?"]}}
    listed = [{"conversation_id": "1", "mapping": {"q": {"message": question}}}]
    values = "[" + ",".join(['{"a":{}}'] * 180_000) + "]"
    some.write_text(f'[{{"mapping":{values}}},{json.dumps(listed[0])}]', encoding="utf-8")
    refused: list[str] = []
    workspace.files.refused.connect(refused.append)
    before = len(workspace.conversations.every())
    workspace.files.imports.look_into(too_large)
    await workspace.files.finish()
    assert refused.pop().startswith("“large.json” is too large: files of up to")
    assert len(workspace.conversations.every()) == before
    monkeypatch.setattr(conversation_imports, "_MAX_BYTES", 1 << 30)
    looked: list[FileContents] = []
    workspace.files.imports.looked.connect(looked.append)
    workspace.files.imports.look_into(some)
    await workspace.files.finish()
    assert looked[0].damaged == ["conversations[0].mapping: must be an object"]
    workspace.files.imports.take(looked[0], looked[0].new)
    await workspace.files.finish()
    assert refused == []
    assert len(workspace.conversations.every()) == before + 1
