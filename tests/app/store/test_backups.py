"""Daily backups of the conversations, and their restoration."""

import os
from pathlib import Path

import pytest

from app.private_files import made_private
from app.store import backups
from app.store.backups import MAX_BACKUPS
from tests.app.store.conftest import BAD_SCHEMA, changed, keep, opened, recovered, write
from ui.records.messages import ConversationMessage
from ui.records.store import Recovered

PICTURES = [f"{'a' * 32}.png", f"{'b' * 32}.png"]
NOTE = f"(a picture, kept as {PICTURES[0]})"


def names(path: Path) -> list[str]:
    return sorted(file.name for file in backups.backups_folder(path).iterdir())


async def test_backup_is_made_once_a_day_and_seven_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(path)
    folder = made_private(backups.backups_folder(path))
    for companion in ("-shm", "-wal"):  # earlier versions left them
        (folder / f"conversations 2026-11-09.db{companion}").touch()
    for day in range(10, 20):
        monkeypatch.setattr(backups.time, "strftime", lambda _, day=day: f"2026-11-{day}")
        for _ in range(2):
            async with opened(path):
                pass
    assert names(path) == [f"conversations 2026-11-{day}.db" for day in range(13, 20)]
    assert len(names(path)) == MAX_BACKUPS
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in path.parent.rglob("*.db"))


async def test_backup_is_restored_after_damage(path: Path) -> None:
    await write(path)
    async with opened(path):
        pass
    [backup] = backups.backups_folder(path).iterdir()
    changed(path, BAD_SCHEMA)
    async with opened(path) as store:
        assert store.conversations() == []
        outcome, found = await recovered(store, backup)
        assert outcome == Recovered(conversations=3, messages=6)
        assert sorted(each.title for each in found) == ["Talk 0", "Talk 1", "Talk 2"]
    assert len(names(path)) == 1


async def test_pictures_of_a_backup_are_kept(path: Path) -> None:
    await write(path)
    changed(path, f"UPDATE messages SET run = '{{}}', text = '{NOTE}' WHERE role = 'user'")
    for name in PICTURES:
        file = path.parent / "pictures" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"picture")
        os.utime(file, (1.0, 1.0))
    async with opened(path):
        pass
    changed(path, "DELETE FROM messages")
    async with opened(path):
        pass
    assert [file.name for file in path.parent.glob("pictures/*")] == PICTURES[:1]
    assert len(names(path)) == 1  # SQLite left nothing beside the backup


async def test_backup_restores_deleted_conversations_and_replaces_nothing(path: Path) -> None:
    await write(path)
    async with opened(path) as store:
        first, second, _ = store.conversations()
    [backup] = backups.backups_folder(path).iterdir()
    async with opened(path) as store:
        first, second, _ = store.conversations()
        second.title = "renamed"
        store.save(second)
        store.delete(first)
    async with opened(path) as store:
        outcome, found = await recovered(store, backup)
        assert outcome == Recovered(conversations=1, messages=2)
        assert {each.title for each in found} >= {"renamed", first.title}


async def test_backup_restores_conversation_deleted_since_the_start(path: Path) -> None:
    await write(path)
    async with opened(path) as store:
        first = store.conversations()[0]
    [backup] = backups.backups_folder(path).iterdir()
    async with opened(path) as store:
        first = store.conversations()[0]
        store.delete(first)
        outcome, found = await recovered(store, backup)
        assert outcome == Recovered(conversations=1)
        assert [len(each.messages) for each in found if each.id == first.id] == [2]
    async with opened(path) as store:
        assert first.id in {each.id for each in store.conversations()}


async def test_backup_brings_no_deleted_message_back(path: Path) -> None:
    await write(path)
    async with opened(path) as store:
        first, second, third = store.conversations()
    [backup] = backups.backups_folder(path).iterdir()
    async with opened(path) as store:
        first, second, third = store.conversations()
        for each in (first, second):
            await store.fill(each)
            store.delete_messages(each, list(each.tree)[1:])
        store.delete(third)
    async with opened(path) as store:
        store.delete(second)
        outcome, found = await recovered(store, backup)
        assert outcome == Recovered(conversations=2, messages=2)
        assert {each.id: len(each.messages) for each in found} == {
            first.id: 1, second.id: 1, third.id: 2,
        }  # fmt: skip


async def test_damaged_file_adds_its_newer_messages_to_a_restored_backup(path: Path) -> None:
    await write(path)
    async with opened(path):
        pass
    [backup] = backups.backups_folder(path).iterdir()
    async with opened(path) as store:
        first = store.conversations()[0]
        await store.fill(first)
        first.add(ConversationMessage("user", "newer"))
        keep(store, first)
    changed(path, BAD_SCHEMA)
    async with opened(path) as store:
        await recovered(store, backup)
        outcome, found = await recovered(store)
        assert outcome == Recovered(messages=1)
        assert "newer" in [each.messages[-1].text for each in found]


async def test_file_that_is_no_backup_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"no database" * 1000)
    async with opened(path) as store:
        outcome, _ = await recovered(store, other)
        assert (outcome.conversations, outcome.messages) == (0, 0)
