"""A store on a file of its own, used from a loop as the window does."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.store.conversation_store import SqliteConversationStore, open_store

Use = Callable[[Callable[[SqliteConversationStore], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def use(path: Path) -> Use:
    """Open the store, use it, and close it; each call is another start of the program."""

    def use_store(steps: Callable[[SqliteConversationStore], Coroutine[Any, Any, Any]]) -> Any:
        async def whole() -> Any:
            store = await open_store(path)
            try:
                return await steps(store)
            finally:
                await store.close()

        return asyncio.run(whole())

    return use_store
