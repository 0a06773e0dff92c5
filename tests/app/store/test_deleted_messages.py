"""Deleted messages are gone from the file and from the search, and can be restored."""

import asyncio
from pathlib import Path

from app.store.conversation_store import open_store
from tests.support.answers.said import conversation


def test_deleted_messages_are_gone_after_a_restart_unless_they_were_restored(
    tmp_path: Path,
) -> None:
    path = tmp_path / "conversations.db"

    async def kept_texts() -> list[str]:
        store = await open_store(path)
        (found,) = store.load_all()
        await store.fill(found)
        await store.close()
        return [message.text for message in found.messages]

    async def steps() -> None:
        store = await open_store(path)
        said = conversation()
        store.save(said)
        store.save_messages(said, list(said.tree))
        await store.settled()
        answer = said.messages[-1]
        removed = said.tree.remove(answer)
        assert removed == [answer]
        store.delete_messages(said, removed)
        await store.settled()
        assert await store.search("1 2 3") == []
        await store.close()
        assert await kept_texts() == ["Count"]
        store = await open_store(path)
        said.tree.put_back(removed)
        store.save_messages(said, removed)
        await store.settled()
        assert len(await store.search("1 2 3")) == 1
        await store.close()
        assert await kept_texts() == ["Count", "1 2 3"]

    asyncio.run(steps())
