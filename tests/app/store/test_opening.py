import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.exits import CommandError
from app.store import database, schema
from app.store.conversation_store import SqliteConversationStore, open_store
from app.store.schema import APPLICATION_ID, STEPS, VERSION, migrate
from tests.app.store.conftest import keep, opened
from tests.support.answers.said import conversation
from ui.records.store import Problem


def save_many(store: SqliteConversationStore) -> None:
    for number in range(12):
        written = conversation(f"question {number}", "words " * 1500)
        keep(store, written)


async def write_many(path: Path) -> None:
    async with opened(path) as store:
        save_many(store)


async def problem_of(path: Path) -> Problem | None:
    async with opened(path) as store:
        assert store.conversations() == []
        save_many(store)  # the new file can be used
        return store.problem


def others(path: Path) -> list[Path]:
    return sorted(found for found in path.parent.iterdir() if "set-aside" in found.name)


@pytest.mark.parametrize("damage", ["middle", "end", "tables"])
async def test_damaged_database_is_set_aside(path: Path, damage: str) -> None:
    await write_many(path)
    content = path.read_bytes()
    match damage:
        case "middle":
            content = content[:20_000] + b"\xa5" * 40_000 + content[60_000:]
            path.write_bytes(content)
        case "end":
            content = content[:30_000]
            path.write_bytes(content)
        case _:
            with closing(sqlite3.connect(path)) as broken:
                broken.execute("DROP TABLE presets")
            content = path.read_bytes()
    problem = await problem_of(path)
    assert problem is not None
    assert "damaged" in problem.detail
    assert others(path)[0].read_bytes() == content


async def test_foreign_database_is_set_aside(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.execute("INSERT INTO bookmarks VALUES ('https://example.org')")
    other.commit()
    other.close()
    problem = await problem_of(path)
    assert problem is not None
    assert "another program" in problem.detail
    again = sqlite3.connect(others(path)[0])
    assert again.execute("SELECT url FROM bookmarks").fetchall() == [("https://example.org",)]
    again.close()


async def test_newer_database_is_set_aside(path: Path) -> None:
    await write_many(path)
    later = sqlite3.connect(path)
    later.execute(f"PRAGMA user_version = {VERSION + 1}")
    later.close()
    problem = await problem_of(path)
    assert problem is not None
    assert "newer version" in problem.detail


@pytest.mark.parametrize("version", range(VERSION))
async def test_earlier_database_is_migrated(path: Path, version: int) -> None:
    path.parent.mkdir()
    earlier = sqlite3.connect(path, isolation_level=None)
    for number in range(version):
        earlier.executescript(STEPS[number])
    if version:
        earlier.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        earlier.execute(f"PRAGMA user_version = {version}")
        earlier.execute(
            "INSERT INTO conversations(id, title, settings, stops, created_at, updated_at) "
            "VALUES ('c', 'T', '{}', '[]', 1, 1)"
        )
        earlier.execute(
            "INSERT INTO messages VALUES (1, 'm', 'c', NULL, 'user', 'from earlier', NULL, 0, 1, 1)"
        )
    earlier.close()

    async with opened(path) as store:
        assert store.problem is None
        assert len(await store.search("earlier")) == (1 if version else 0)


async def test_failed_migration_is_rolled_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write_many(path)
    broken_step = "CREATE TABLE more (x); INSERT INTO nowhere VALUES (1);"
    monkeypatch.setattr(schema, "STEPS", (*STEPS, broken_step))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.Error, match="nowhere"):
        migrate(connection)
    connection.rollback()
    connection.close()
    again = sqlite3.connect(path)
    assert again.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert again.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall() == []
    again.close()


async def test_database_is_not_set_aside_without_full_text_search(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_many(path)
    monkeypatch.setattr(database, "_compile_options", lambda: set())
    with pytest.raises(CommandError, match=r"SQLite lacks full-text search \(FTS5\)"):
        await open_store(path)
    assert others(path) == []


async def test_locked_database_is_not_set_aside(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_many(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    problem = await problem_of(path)
    assert problem is not None
    assert "locked" in problem.detail
    other.close()
    assert others(path) == []
