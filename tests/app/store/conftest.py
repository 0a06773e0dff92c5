"""A store with a file of its own, used from a loop as in the window."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.store import conversation_store
from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.answers.said import conversation
from ui.records.conversations import Conversation
from ui.records.store import Recovered

BAD_SCHEMA = "UPDATE sqlite_master SET sql = CAST(x'41ff42' AS TEXT) WHERE name = 'presets'"
Use = Callable[[Callable[[SqliteConversationStore], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def use(path: Path) -> Use:
    """Open the store, use it, and close it; each call is like another start of the program."""

    def use_store(steps: Callable[[SqliteConversationStore], Coroutine[Any, Any, Any]]) -> Any:
        async def whole() -> Any:
            store = await open_store(path)
            try:
                return await steps(store)
            finally:
                await store.close()

        return asyncio.run(whole())

    return use_store


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the waits for a lock and for the next attempt to save short."""
    monkeypatch.setattr(conversation_store, "PATIENT_MS", 50)
    monkeypatch.setattr(conversation_store, "_IMPATIENT_MS", 10)
    monkeypatch.setattr(conversation_store, "_TRIED_AGAIN_AFTER_S", 0.05)


def stored(path: Path) -> list[tuple[str, str | None, str]]:
    """Return the file's messages as another program reads them: id, parent and text."""
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute("SELECT id, parent_id, text FROM messages ORDER BY number").fetchall()


def changed(path: Path, *statements: str) -> None:
    """Change a file as damage would, past all checks."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)


async def recovered(store: SqliteConversationStore) -> tuple[Recovered, list[Conversation]]:
    """Recover what can be read; return the outcome, and the conversations that were found."""
    found: list[Conversation] = []
    store.on_found(lambda conversations, presets: found.extend(conversations))
    outcome = await store.recover(lambda done, total: None, lambda: False)
    for one in found:
        await store.fill(one)
    return outcome, found


async def write(store: SqliteConversationStore) -> None:
    """Save three conversations."""
    for number in range(3):
        one = conversation(f"question {number}")
        one.title = f"Talk {number}"
        store.save(one)
        store.save_messages(one, list(one.tree))
