"""A full disk, or a file that is locked or read-only: nothing is lost, and the order stays."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.store import writer
from app.store.conversation_store import SqliteConversationStore
from tests.app.store.conftest import keep, opened, stored
from tests.support.answers.said import conversation, finished_run
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.store import Problem

pytestmark = pytest.mark.usefixtures("hurried")

FULL, READ_ONLY, LOCKED = "full", "read-only", "locked"


class Trouble:
    def __init__(self, store: SqliteConversationStore, path: Path, kind: str) -> None:
        self.told: list[Problem | None] = []
        store.on_problem(self.told.append)
        self._store, self._kind = store, kind
        self._other = sqlite3.connect(path, isolation_level=None)

    async def begin(self) -> None:
        # SQLite's own limits raise the errors of a disk without room or without permission.
        await self._change("max_page_count = 1", "query_only = 1", "BEGIN IMMEDIATE")

    async def end(self) -> None:
        await self._change("max_page_count = 1000000", "query_only = 0", "ROLLBACK")
        await self.until(lambda: not self._store.has_unsaved)
        self._other.close()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not is_so():  # noqa: ASYNC110 - what is awaited has no signal
                await asyncio.sleep(0.01)

    async def _change(self, full: str, read_only: str, locked: str) -> None:
        if self._kind == LOCKED:
            self._other.execute(locked)
        else:
            pragma = full if self._kind == FULL else read_only
            await self._store._read(lambda file: file.execute(f"PRAGMA {pragma}"), None)


@pytest.mark.parametrize("kind", [FULL, READ_ONLY, LOCKED])
async def test_failed_write_is_retried_in_order(path: Path, kind: str) -> None:
    asked = Conversation("Counting", [ConversationMessage("user", "x" * 100_000)])
    answer = ConversationMessage("assistant", run=Run(state="streaming", text="1"))

    async with opened(path) as store:
        trouble = Trouble(store, path, kind)
        await trouble.begin()
        keep(store, asked)
        await store.flush()
        assert stored(path) == []
        asked.add(answer)
        store.save_messages(asked, [answer])
        await store.flush()
        assert store.has_unsaved
        assert not store.is_saved(asked)
        # The test saves nothing more: the store itself tries again.
        await trouble.end()
        assert store.is_saved(asked)
        assert stored(path) == [
            (asked.messages[0].id, None, "x" * 100_000),
            (answer.id, asked.messages[0].id, "1"),
        ]


@pytest.mark.parametrize("kind", [FULL, READ_ONLY, LOCKED])
async def test_failed_writes_reach_last_state(path: Path, kind: str) -> None:
    gone, back, renamed = conversation("gone"), conversation("back"), conversation("kept")
    new = conversation("new")

    async with opened(path) as store:
        keep(store, gone, back, renamed)
        store.save_preset(Preset("Old", ConversationSettings()))
    async with opened(path) as store:
        trouble = Trouble(store, path, kind)
        await trouble.begin()
        renamed.title = "First title"
        store.save(renamed)
        await store.flush()
        renamed.title = "Last title"
        store.save(renamed)
        store.delete(gone)
        store.delete(back)
        store.restore(back)
        keep(store, new)
        new.messages[1].run = finished_run("the end of the answer")
        store.save_messages(new, [new.messages[1]])
        store.delete_preset("Old")
        store.save_preset(Preset("New", ConversationSettings()))
        await store.flush()
        await trouble.end()
    async with opened(path) as store:
        found = store.conversations()
        for one in found:
            await store.fill(one)
        assert {one.title for one in found} == {"Counting", "Last title"}
        assert {one.messages[0].text for one in found} == {"back", "kept", "new"}
        last = next(one for one in found if one.id == new.id)
        assert [m.content for m in last.messages] == ["new", "the end of the answer"]
        assert [preset.name for preset in store.presets()] == ["New"]


async def test_an_edit_during_a_write_of_the_same_row_is_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_written, goes_on = threading.Event(), threading.Event()
    write = writer.transaction

    @contextmanager
    def held(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        with write(connection) as begun:
            yield begun
        is_written.set()
        goes_on.wait(30)

    async with opened(path) as store:
        edited = conversation("edited")
        keep(store, edited)
        await store.flush()
        monkeypatch.setattr(writer, "transaction", held)
        edited.title = "First title"
        store.save(edited)
        await asyncio.to_thread(is_written.wait, 30)
        edited.title = "Last title"
        store.save(edited)
        goes_on.set()
    async with opened(path) as store:
        assert [one.title for one in store.conversations()] == ["Last title"]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (FULL, "the disk is full"),
        (READ_ONLY, "the file is read-only"),
        (LOCKED, "another program has locked the file"),
    ],
)
async def test_write_failure_is_reported_once(path: Path, kind: str, cause: str) -> None:
    async with opened(path) as store:
        trouble = Trouble(store, path, kind)
        await trouble.begin()
        for _ in range(3):
            one = conversation("x" * 100_000)
            keep(store, one)
            await store.flush()
        (problem,) = trouble.told
        assert problem is not None
        assert problem.sentence == "Your conversations are not being saved."
        assert problem.detail.startswith(f"conversations.db: {cause}. ")
        await trouble.end()
        await trouble.until(lambda: len(trouble.told) > 1)
        assert trouble.told[1:] == [None]


async def test_pending_writes_are_flushed_on_close(path: Path) -> None:
    one = conversation()

    async with opened(path) as store:
        trouble = Trouble(store, path, LOCKED)
        await trouble.begin()
        keep(store, one)
        await store.flush()
        trouble._other.execute("ROLLBACK")
        trouble._other.close()

    assert len(stored(path)) == 2


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("unexpected")])
async def test_unexpected_error_is_reported_and_saving_continues(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with opened(path) as store:
        told: list[Problem | None] = []
        store.on_problem(told.append)
        with monkeypatch.context() as patched:
            patched.setattr(writer, "transaction", Mock(side_effect=error))
            keep(store, conversation("one"))
            await store.flush()
            await asyncio.sleep(0)
            assert [problem.sentence for problem in told if problem] == [
                "Your conversations are not being saved."
            ]
        async with asyncio.timeout(30):
            while store.has_unsaved:  # noqa: ASYNC110 - what is awaited has no signal
                await asyncio.sleep(0.01)
        assert told[-1] is None
        assert len(stored(path)) == 2


async def test_value_of_wrong_type_is_reported_and_stops_no_other_change(path: Path) -> None:
    good, bad = conversation("good"), conversation("bad")
    bad.placement = replace(bad.placement, folder_id=object())
    async with opened(path) as store:
        told: list[Problem | None] = []
        store.on_problem(told.append)
        store.save(bad)
        keep(store, good)
        await store.flush()
        assert [problem.sentence for problem in told if problem] == ["A change could not be saved."]
        assert len(stored(path)) == 2
