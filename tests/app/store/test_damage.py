"""Damaged databases: the window starts, and nothing readable is lost."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.app.store.conftest import changed, keep, opened, write
from tests.support.answers.said import conversation
from tests.support.attacks import database_attacks
from tests.support.random_cases import few_of
from ui.records.codec import Preset

_CASES = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.db"
    asyncio.run(database_attacks.fill_file(path))
    return path


@pytest.mark.parametrize("first", few_of(range(len(database_attacks.HARMS)), 4))
def test_damaged_database_is_opened_or_set_aside(sound: Path, tmp_path: Path, first: int) -> None:
    for seed in range(first, _CASES, len(database_attacks.HARMS)):
        place = tmp_path / str(seed)
        place.mkdir()
        database_attacks.attack(seed, sound, place)


async def test_damaged_title_byte_is_replaced(path: Path) -> None:
    await write(path)
    changed(path, "UPDATE conversations SET title = CAST(x'41ff42' AS TEXT) WHERE title = 'Talk 1'")

    async with opened(path) as store:
        assert store.problem is None
        titles = sorted(one.title for one in store.conversations())
        assert titles == ["A\ufffdB", "Talk 0", "Talk 2"]


async def test_damaged_search_index_is_rebuilt(path: Path) -> None:
    await write(path)

    async with opened(path) as store:

        def spoil(database: sqlite3.Connection) -> None:
            database.execute("UPDATE said_data SET block = x'ffffffffff'")

        store.save_preset(Preset("Any", conversation().settings))
        await store.flush()
        await store._read(spoil, None)
        one = conversation("written later")
        keep(store, one)
        await store.flush()
        assert not store.has_unsaved
    async with opened(path) as store:
        assert len(await store.search("written later")) == 1
        assert len(await store.search("question")) == 3
