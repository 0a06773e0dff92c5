"""Deleted messages are gone from the file and from the search, and can be restored."""

from pathlib import Path

from tests.app.store.conftest import opened
from tests.support.answers.said import conversation


async def kept_texts(path: Path) -> list[str]:
    async with opened(path) as store:
        (found,) = store.load_all()
        await store.fill(found)
        return [message.text for message in found.messages]


async def test_deleted_messages_are_gone_after_a_restart_unless_they_were_restored(
    path: Path,
) -> None:
    said = conversation()
    async with opened(path) as store:
        store.save(said)
        store.save_messages(said, list(said.tree))
        await store.settled()
        answer = said.messages[-1]
        removed = said.tree.remove(answer)
        assert removed == [answer]
        store.delete_messages(said, removed)
        await store.settled()
        assert await store.search("1 2 3") == []
    assert await kept_texts(path) == ["Count"]
    async with opened(path) as store:
        said.tree.put_back(removed)
        store.save_messages(said, removed)
        await store.settled()
        assert len(await store.search("1 2 3")) == 1
    assert await kept_texts(path) == ["Count", "1 2 3"]
