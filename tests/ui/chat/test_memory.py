"""What stays in memory, and that files of any size never hold up the main thread."""

import asyncio
import gc
import json
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.answers.said import FINISHED, finished_run
from tests.support.outside.tool_hosts import no_tools
from tests.support.shown import SilentServer
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually
from ui.chat.composing.preset_list import PresetList
from ui.chat.history.conversation_list import ConversationList
from ui.chat.session.open_conversations import MOST_OPEN
from ui.chat.session.workspace import Workspace
from ui.chat.storage import conversation_files
from ui.chat.storage import conversation_imports as library
from ui.chat.storage.conversation_files import ConversationFiles
from ui.chat.storage.transfer_bar import TransferBar
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_json
from ui.records.exchange.found import FoundConversations
from ui.records.messages import ConversationMessage
from ui.records.storing import MemoryConversationStore

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


def test_what_the_file_does_not_have_stays(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
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


@contextmanager
def watched_parts(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event | None = None
) -> Iterator[list[int]]:
    """Note the threads on which conversations are turned into text; at a gate the second waits."""
    threads: list[int] = []
    real = conversation_files.archive_part

    def part(conversation: Conversation, *, is_first: bool) -> str:
        threads.append(threading.get_ident())
        if gate is not None and not is_first:
            gate.wait(30)
        return real(conversation, is_first=is_first)

    monkeypatch.setattr(conversation_files, "archive_part", part)
    yield threads


def test_export_all_goes_conversation_by_conversation_on_another_thread(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        at_once = len(loaded(workspace))
        turns, seen = Turns(), []
        files = workspace.files
        files.transfers.changed.connect(
            lambda: seen.append((turns.count, len(loaded(workspace)), files.transfers.now))
        )
        with watched_parts(monkeypatch) as threads:
            files.export_all_to(tmp_path / "all.json")
            await files.finish()
        await turns.end()
        assert len(threads) == len(every(workspace))
        assert threading.get_ident() not in threads
        steps_at = [count for count, _, now in seen if now is not None]
        assert len(set(steps_at)) >= len(threads), "the window's loop turned between them"
        assert {count for _, count, _ in seen} == {at_once}, "none stays in memory"
        written = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
        texts = [one["messages"][0]["text"] for one in written["conversations"]]
        assert sorted(texts) == sorted(f"question {n}.0" for n in range(COUNT))

    use(steps)


def test_a_cancelled_export_leaves_the_file_that_was_there(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "all.json").write_text("before")

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        files, written = workspace.files, []
        files.written.connect(written.append)
        gate = threading.Event()
        with watched_parts(monkeypatch, gate) as threads:
            files.export_all_to(folder / "all.json")
            await eventually(lambda: len(threads) == 2)
            files.transfers.cancel()
            gate.set()
            await files.finish()
            assert len(threads) == 2
        assert [path.name for path in folder.iterdir()] == ["all.json"]
        assert (folder / "all.json").read_text() == "before"
        assert written == []
        assert files.transfers.now is None

    use(steps)


def test_an_export_that_cannot_be_written_says_why(use: Use, tmp_path: Path) -> None:
    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        files, refused = workspace.files, []
        files.refused.connect(refused.append)
        files.export_all_to(tmp_path / "no folder" / "all.json")
        await files.finish()
        assert refused == ["all.json could not be written: there is no such file or folder."]

    use(steps)


def test_an_export_has_what_can_be_read_and_names_the_rest(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.json"

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        files, refused = workspace.files, []
        files.refused.connect(refused.append)
        unread = [one for one in every(workspace) if not one.is_loaded]
        lost, real = unread[:5], store.read

        async def read(conversation: Conversation) -> list[ConversationMessage] | None:
            return None if conversation in lost else await real(conversation)

        monkeypatch.setattr(store, "read", read)
        files.export_all_to(path)
        await files.finish()
        assert len(json.loads(path.read_text())["conversations"]) == COUNT - 5
        names = ", ".join(f"“{one.title}”" for one in lost[:3])
        assert refused == [
            f"{names} and 2 more conversations could not be read. all.json has the others."
        ]
        files.export_to(tmp_path / "one.json", lost[0])
        await files.finish()
        assert refused[1:] == [f"“{lost[0].title}” could not be read. Nothing was written."]
        assert not (tmp_path / "one.json").exists()

    use(steps)


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


def test_a_transfer_shows_how_far_it_is_and_can_be_cancelled(
    run: RunOnLoop, qapp: object, tmp_path: Path
) -> None:
    gate = threading.Event()

    class SlowStore(MemoryConversationStore):
        async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
            await asyncio.to_thread(gate.wait)
            return [ConversationMessage("user", "x")]

    async def steps() -> None:
        store = SlowStore()
        for number in range(3):
            made = said(number)
            made.unload("")
            store.save(made)
        files = ConversationFiles(store, ConversationList(store), PresetList(store))
        bar = TransferBar(files.transfers)
        files.export_all_to(tmp_path / "all.json")
        assert not bar.isVisible(), "what is soon done needs no word"
        await eventually(bar.isVisible)
        assert bar.words.text() == "Exporting all conversations: 0 of 3"
        bar.cancel.click()
        gate.set()
        await files.finish()
        assert not bar.isVisible()
        assert not (tmp_path / "all.json").exists()
        bar.deleteLater()

    run(steps())


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


def test_a_pipe_in_place_of_an_archive_holds_up_nothing(use: Use, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        refused: list[str] = []
        workspace.files.refused.connect(refused.append)
        workspace.files.import_from(tmp_path / "pipe.json")
        await workspace.files.finish()
        assert refused == ["pipe.json could not be read: it is not a regular file."]

    use(steps)
