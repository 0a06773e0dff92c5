"""Opens damaged databases as the window does: it starts, shows readable text, and loses nothing."""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.store.conversation_store import open_store
from tests.support.answers.said import conversation, finished_run
from tests.support.attacks.damage import flipped
from tests.support.memory_store import MemoryConversationStore
from ui.chat.session.conversation_list import ConversationList
from ui.chat.sidebar_rows import when_text
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.exchange.archive import conversation_markdown
from ui.records.messages import ConversationMessage

_TALKS = 12
_PAGE = 4096
Harm = Callable[[random.Random, Path], None]


async def fill_file(path: Path) -> None:
    """Write a database with some conversations, a branch, and presets."""
    store = await open_store(path)
    for number in range(_TALKS):
        one = conversation(f"question {number} " + "word " * 40 * number, f"answer {number}")
        one.title = f"Talk {number}"
        first = one.messages[0]
        one.tree.add(ConversationMessage("assistant", "another", finished_run("another")), first)
        for turn in range(6):
            one.add(ConversationMessage("user", f"then {turn} " + "more " * 60))
            one.add(ConversationMessage("assistant", "yes " * 80, finished_run("yes " * 80)))
        store.save(one)
        store.save_messages(one, list(one.tree))
    store.save_preset(Preset("One", ConversationSettings(temperature=0.0)))
    await store.aclose()


def _some_bytes(rng: random.Random, path: Path) -> None:
    path.write_bytes(flipped(rng, path.read_bytes(), rng.choice((1, 8, 200, 5000))))


def _first_page(rng: random.Random, path: Path) -> None:
    content = path.read_bytes()
    end = rng.choice((100, _PAGE))
    path.write_bytes(flipped(rng, content[:end], 12) + content[end:])


def _cut_short(rng: random.Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def _zeroed_pages(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) // _PAGE) * _PAGE
        content[at : at + _PAGE] = rng.choice((bytes(_PAGE), rng.randbytes(_PAGE)))
    path.write_bytes(content)


def _swapped_pages(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    one, other = (rng.randrange(1, len(content) // _PAGE) * _PAGE for _ in range(2))
    page = content[one : one + _PAGE]
    content[one : one + _PAGE] = content[other : other + _PAGE]
    content[other : other + _PAGE] = page
    path.write_bytes(content)


def _strange_companions(rng: random.Random, path: Path) -> None:
    for companion in ("-wal", "-shm"):
        Path(f"{path}{companion}").write_bytes(rng.randbytes(rng.choice((0, 32, 4_000, 33_000))))


def _changed(*statements: str) -> Harm:
    def work(rng: random.Random, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(rng.choice(statements))

    return work


_BAD = "CAST(x'41ff4280c3' AS TEXT)"
_schema = _changed(
    f"UPDATE sqlite_master SET sql = {_BAD} WHERE name = 'messages'",
    f"UPDATE sqlite_master SET sql = sql || {_BAD} WHERE name = 'conversations'",
    f"UPDATE sqlite_master SET name = {_BAD} WHERE name = 'presets'",
    "UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'TEXR')",
    "UPDATE sqlite_master SET sql = 'CREATE TABLE messages (x)' WHERE name = 'messages'",
    "UPDATE sqlite_master SET rootpage = 3 WHERE name = 'messages'",
    "UPDATE sqlite_master SET rootpage = 999999 WHERE name = 'conversations'",
    "UPDATE sqlite_master SET sql = replace(sql, 'said', 'saib') WHERE name LIKE 'said_%'",
    f"UPDATE sqlite_master SET sql = replace(sql, 'trigram', {_BAD}) WHERE name = 'said'",
    "DELETE FROM sqlite_master WHERE name = 'messages'",
    "DELETE FROM sqlite_master WHERE name LIKE 'said_%'",
    "DROP TABLE presets",
    "DROP TRIGGER said_insert",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = -7",
    "PRAGMA user_version = 0",
    "PRAGMA application_id = 0",
    "UPDATE sqlite_master SET type = 'view' WHERE name = 'messages'",
)
_values = _changed(
    f"UPDATE conversations SET title = {_BAD}",
    f"UPDATE conversations SET settings = {_BAD}, stops = {_BAD}, draft = {_BAD}",
    f"UPDATE messages SET text = {_BAD}, run = {_BAD} WHERE number % 3 = 1",
    f"UPDATE messages SET role = {_BAD} WHERE number % 5 = 1",
    f"UPDATE messages SET id = id || {_BAD} WHERE number % 5 = 1",
    f"UPDATE messages SET parent_id = {_BAD} WHERE number % 5 = 1",
    "UPDATE messages SET parent_id = id",
    "UPDATE messages SET conversation_id = 'nowhere' WHERE number % 3 = 1",
    "UPDATE messages SET role = 'system'",
    "UPDATE messages SET created_at = 1e308, shown_rank = 9223372036854775807",
    "UPDATE messages SET created_at = -1e308, shown_rank = -9223372036854775808",
    "UPDATE messages SET is_running = 1",
    "UPDATE messages SET number = number + 9223372036854770000",
    "UPDATE messages SET run = '{}'",
    "UPDATE messages SET run = replace(hex(zeroblob(50000)), '00', '[')",
    "UPDATE messages SET run = '{\"id\": 1' || replace(hex(zeroblob(5000)), '0', '9') || '}'",
    "UPDATE conversations SET created_at = 1e308, updated_at = 9e999",
    "UPDATE conversations SET updated_at = -1e300, deleted_at = -1e300",
    "UPDATE conversations SET settings = '[]', stops = '{}'",
    "UPDATE conversations SET settings = '{\"temperature\": 1e999}', stops = '[5]'",
    "UPDATE conversations SET settings = replace(hex(zeroblob(50000)), '00', '[')",
    "UPDATE conversations SET is_pinned = -9223372036854775808",
    "UPDATE conversations SET title = replace(hex(zeroblob(200000)), '00', 'x')",
    "UPDATE conversations SET title = char(0) || 'x' || char(27) || '[2J'",
    "UPDATE presets SET content = replace(hex(zeroblob(50000)), '00', '[')",
    f"UPDATE presets SET name = {_BAD}, content = {_BAD}",
)
_index = _changed(
    "DELETE FROM said_data",
    "DELETE FROM said_data WHERE id > 10",
    "UPDATE said_data SET block = x'00' WHERE id > 10",
    "UPDATE said_data SET block = x'ffffffffff'",
    "DELETE FROM said_config",
    "DELETE FROM said_docsize",
    "UPDATE said_config SET v = 99",
)
HARMS: tuple[Harm, ...] = (
    _some_bytes,
    _first_page,
    _cut_short,
    _zeroed_pages,
    _zeroed_pages,
    _swapped_pages,
    _strange_companions,
    _schema,
    _values,
    _index,
)


def attack(seed: int, sound: Path, folder: Path) -> str:
    """Damage a copy of an undamaged file and use it; return the outcome."""
    rng = random.Random(seed)
    path = folder / "conversations.db"
    shutil.copyfile(sound, path)
    harm = HARMS[seed % len(HARMS)]
    harm(rng, path)
    return asyncio.run(_use(path, path.read_bytes()))


async def _use(path: Path, damaged: bytes) -> str:
    store = await open_store(path)
    new = conversation("something new")
    try:
        outcome = "opened"
        listed = ConversationList(MemoryConversationStore())
        for one in store.conversations():
            await _look_at(store, listed, one)
        store.presets()
        await store.search("word")
        await store.search("a")
        if store.problem is not None:
            outcome = "set aside"
            assert store.conversations() == []
            assert store.problem.path is not None
            assert store.problem.path.read_bytes() == damaged, "the original was changed"
            if store.problem.can_be_recovered:
                outcome = await _recover(store, listed)
            assert store.problem.path.read_bytes() == damaged, "the original was changed"
        store.save(new)
        store.save_messages(new, list(new.tree))
        await store.flush()
        assert not store.has_unsaved, "new text is not saved"
    finally:
        await store.aclose()
    again = await open_store(path)
    try:
        found = {one.id: one for one in again.conversations()}
        assert new.id in found, "the new text is gone"
        await again.fill(found[new.id])
        assert len(found[new.id].tree) == len(new.tree)
    finally:
        await again.aclose()
    return outcome


async def _look_at(store: object, listed: ConversationList, one: Conversation) -> None:
    when_text(one.updated_at)
    await store.fill(one)  # type: ignore[attr-defined]
    conversation_markdown(one)
    listed.insert(one)


async def _recover(store: object, listed: ConversationList) -> str:
    found: dict[str, Conversation] = {}
    store.on_found(lambda some, _: found.update((one.id, one) for one in some))  # type: ignore[attr-defined]
    path = store.problem.path  # type: ignore[attr-defined]
    recovered = await store.recover(path)  # type: ignore[attr-defined]
    for one in found.values():
        await _look_at(store, listed, one)
    assert len(found) == recovered.conversations
    assert sum(len(one.tree) for one in found.values()) == recovered.messages
    again = await store.recover(path)  # type: ignore[attr-defined]
    assert (again.conversations, again.messages) == (0, 0), "recovered twice"
    if recovered.cause:
        return "set aside, nothing readable"
    is_whole = recovered.conversations == _TALKS and not recovered.unreadable
    return "set aside, all recovered" if is_whole else "set aside, some recovered"
