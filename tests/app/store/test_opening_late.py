"""A store that cannot open its file at first opens it later, and writes the changes until then."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.app.store.conftest import keep, opened, stored
from tests.support.answers.said import conversation
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.store import StoreProblem

pytestmark = pytest.mark.usefixtures("hurried")


async def test_a_file_that_is_locked_at_the_start_is_opened_later_with_all_its_content(
    path: Path,
) -> None:
    old, new = conversation("old"), conversation("new")

    async with opened(path) as store:
        keep(store, old)
        store.save_preset(Preset("Old", ConversationSettings()))

    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")

    async with opened(path, may_wait=True) as store:
        told: list[StoreProblem | None] = []
        found: list[Conversation] = []
        store.on_problem(told.append)
        store.on_found(lambda conversations, presets: found.extend(conversations))
        assert store.problem is not None
        assert "another program has locked the file" in store.problem.detail
        assert store.load_all() == []
        # An empty conversation cannot be lost; a question can.
        store.save(Conversation())
        await store.settled()
        assert not store.has_unsaved
        keep(store, new)
        await store.settled()
        assert store.has_unsaved
        assert await store.search("old") == []
        other.close()
        async with asyncio.timeout(30):
            while store.has_unsaved:  # noqa: ASYNC110 - what is awaited has no signal
                await asyncio.sleep(0.01)
        assert [one.id for one in found] == [old.id]
        assert told[-1] is None
        assert len(await store.search("old")) == 1
    assert [text for *_, text in stored(path)] == ["old", "1 2 3", "new", "1 2 3"]


async def test_a_folder_that_appears_later_is_used_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "data").touch()  # a file is in the place of the folder
    one = conversation()

    async with opened(tmp_path / "data" / "c.db", may_wait=True) as store:
        keep(store, one)
        await store.settled()
        assert store.has_unsaved
        (tmp_path / "data").unlink()
        async with asyncio.timeout(30):
            while store.has_unsaved:  # noqa: ASYNC110 - what is awaited has no signal
                await asyncio.sleep(0.01)
    assert len(stored(tmp_path / "data" / "c.db")) == 2
