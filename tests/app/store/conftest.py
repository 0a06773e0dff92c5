"""A store with a file of its own, used from a loop as in the window."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from app.store import database, writer
from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.answers.said import conversation
from ui.records.conversations import Conversation
from ui.records.store import Recovered

BAD_SCHEMA = "UPDATE sqlite_master SET sql = CAST(x'41ff42' AS TEXT) WHERE name = 'presets'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteConversationStore]:
    store = await open_store(path)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(writer, "_RETRY_INTERVAL_S", 0.05)


def stored(path: Path) -> list[tuple[str, str | None, str]]:
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute("SELECT id, parent_id, text FROM messages ORDER BY number").fetchall()


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)


async def recovered(
    store: SqliteConversationStore, path: Path | None = None
) -> tuple[Recovered, list[Conversation]]:
    """Recover a file, or the damaged one; return the outcome and all conversations after it."""
    found: list[Conversation] = []
    store.on_found(lambda conversations, presets: found.extend(conversations))
    if path is None:
        assert store.problem is not None
        assert store.problem.path is not None
        path = store.problem.path
    outcome = await store.recover(path)
    for one in found:
        await store.fill(one)
    return outcome, found


def keep(store: SqliteConversationStore, *conversations: Conversation) -> None:
    for saved in conversations:
        store.save(saved)
        store.save_messages(saved, list(saved.tree))


async def write(path: Path, count: int = 3) -> None:
    async with opened(path) as store:
        for number in range(count):
            written = conversation(f"question {number}")
            written.title = f"Talk {number}"
            keep(store, written)
