"""Recovery of a damaged database: offered until it is done or declined, and done only once."""

import asyncio
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from app.store import recovery
from app.store.conversation_store import open_store
from app.store.rows import ConversationRow
from tests.app.store.conftest import BAD_SCHEMA, changed, keep, opened, recovered, write
from tests.support.answers.said import conversation
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact
from ui.records.passages import Document, PassageSearch
from ui.records.store import Recovered


async def test_recovery_of_damaged_schema(path: Path) -> None:
    await write(path)
    changed(path, BAD_SCHEMA)

    async with opened(path) as store:
        assert store.problem is not None
        assert store.problem.can_be_recovered
        assert store.conversations() == []
        outcome, found = await recovered(store)
        assert outcome == Recovered(conversations=3, messages=6)
        assert sorted(one.title for one in found) == ["Talk 0", "Talk 1", "Talk 2"]
        assert {message.text for one in found for message in one.tree} == {
            "1 2 3", "question 0", "question 1", "question 2",
        }  # fmt: skip
        assert [one.settings for one in found] == [conversation().settings] * 3


async def test_recovery_is_idempotent(path: Path) -> None:
    await write(path)
    changed(path, BAD_SCHEMA)

    async with opened(path) as store:
        await recovered(store)
        again, _ = await recovered(store)
        assert again == Recovered()
    async with opened(path) as store:
        assert store.problem is None
        assert len(store.conversations()) == 3
        assert len(await store.search("question")) == 3


async def test_recovery_of_orphaned_messages(path: Path) -> None:
    await write(path)
    changed(path, "DELETE FROM conversations", BAD_SCHEMA)

    async with opened(path) as store:
        outcome, found = await recovered(store)
        assert (outcome.conversations, outcome.messages) == (3, 6)
        assert {one.title for one in found} == {"Recovered conversation"}


async def test_recovery_relinks_messages(path: Path) -> None:
    async with opened(path) as store:
        one = conversation("first")
        for text in ("second", "third", "fourth"):
            one.add(type(one.messages[0])("user", text))
        keep(store, one)

    changed(path, "DELETE FROM messages WHERE text = 'third'", BAD_SCHEMA)

    async with opened(path) as store:
        _, (one,) = await recovered(store)
        assert [message.text for message in one.messages] == [
            "first", "1 2 3", "second", "fourth",
        ]  # fmt: skip


async def test_recovery_of_attached_files(path: Path) -> None:
    file = Attachment("notes.txt", "all of the notes")

    async with opened(path) as store:
        for title, draft in (("Kept", "about these"), ("Lost", ""), ("Silent", "")):
            one = Conversation(title, draft=draft)
            if title != "Silent":
                one.attachments = (file, file)
            store.save(one)

    bad = "INSERT INTO attached SELECT id, 'damaged' FROM conversations WHERE title = 'Silent'"
    changed(path, bad, "DELETE FROM conversations WHERE title = 'Lost'", BAD_SCHEMA)

    async with opened(path) as store:
        outcome, found = await recovered(store)
        assert outcome == Recovered(conversations=3, unreadable=1)
        files = {one.title: (one.draft, one.attachments) for one in found}
        assert files == {
            "Kept": ("about these", (file, file)),
            "Recovered conversation": ("", (file, file)),
            "Silent": ("", ()),
        }
        kept = next(one for one in found if one.title == "Kept")
        kept.attachments = ()
        store.save(kept)
        await store.flush()
        again, found = await recovered(store)
        assert again.conversations == 0
        assert [one.attachments for one in found if one.title == "Kept"] == [()]


async def test_recovery_keeps_a_column_that_is_added_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(path, 1)
    fields = ConversationRow._fields
    later = namedtuple("later", (*fields, "color"), defaults=("", False, "", "", "grey"))
    monkeypatch.setattr(recovery, "ConversationRow", later)
    assert recovery.readable_rows(path)[0].conversations[0].color == "grey"
    changed(path, "ALTER TABLE conversations ADD COLUMN color TEXT NOT NULL DEFAULT 'red'")
    assert recovery.readable_rows(path)[0].conversations[0].color == "red"


async def test_cancelled_recovery_ends_the_merge_that_has_begun(path: Path, tmp_path: Path) -> None:
    await write(path)
    async with opened(tmp_path / "other.db") as store:
        release = threading.Event()
        store._database.thread.submit(release.wait)
        recovering = asyncio.ensure_future(store.recover(path))
        await asyncio.sleep(0.2)
        recovering.cancel()
        await asyncio.sleep(0)
        release.set()
        assert (await recovering).conversations == 3
        assert len(store.conversations()) == 3


async def test_recovery_of_facts(path: Path) -> None:
    async with opened(path) as store:
        source = conversation("question")
        keep(store, source)
        store.save_fact(Fact("The user lives in Berlin.", source.id, 1.0, "a1"))
        store.save_fact(Fact("Lost source", "gone", 2.0, "a2"))

    changed(
        path,
        f"INSERT INTO facts VALUES ('a3', '{'x' * 1_000}', 3.0, NULL), ('', 'no id', 4.0, NULL)",
        BAD_SCHEMA,
    )

    async with opened(path) as store:
        assert store.facts() == []
        outcome, _ = await recovered(store)
        assert outcome.unreadable == 2
        assert store.facts() == [
            Fact("The user lives in Berlin.", source.id, 1.0, "a1"),
            Fact("Lost source", "", 2.0, "a2"),
        ]


async def test_damaged_fact_hides_no_other(path: Path) -> None:
    async with opened(path) as store:
        store.save_fact(Fact("First", "", 1.0, "a1"))
    changed(
        path,
        "INSERT INTO facts VALUES ('a2', CAST(x'41ff0a42' AS TEXT), 2.0, NULL), "
        f"('a3', '{'x' * 1_000}', 3.0, NULL), ('a4', 'Last', -1e300, NULL)",
    )
    async with opened(path) as store:
        assert store.problem is None
        assert [fact.text for fact in store.facts()] == ["Last", "First", "A\ufffd B"]


async def test_damaged_folder_has_no_memory(path: Path) -> None:
    async with opened(path) as store:
        store.save_folder(ConversationFolder("Private", has_memory=False))
        store.save_folder(ConversationFolder("Open"))
    async with opened(path) as store:
        assert {one.name: one.has_memory for one in store.folders()} == {
            "Private": False, "Open": True,
        }  # fmt: skip
    changed(path, "UPDATE folders SET content = '{'")
    async with opened(path) as store:
        assert [one.has_memory for one in store.folders()] == [False, False]


async def test_recovery_of_folder_documents(path: Path) -> None:
    folder = ConversationFolder("Law")
    store = await open_store(path)
    store.save_folder(folder)
    await store.add_document(folder.id, Document("a.txt", "A quince."), "short", lambda _: None)
    await store.find_passages(PassageSearch([Document("b.txt", "A medlar.")], ["medlar"], "c"))
    await store.aclose()
    damaged = path.with_name("damaged.db")
    path.rename(damaged)
    store = await open_store(path)
    await store.add_document("x", Document("other.txt", "A pear."), "", lambda _: None)
    for _ in range(2):
        await store.recover(damaged)
        [document] = await store.folder_documents(folder.id)
        assert (document.name, document.passages, document.remark) == ("a.txt", 1, "short")
        found = await store.find_passages(PassageSearch([], ["quince"], "c", folder.id))
        assert [passage.text for _, passage in found.ranked] == ["A quince."]
        found = await store.find_passages(PassageSearch([], ["medlar"], "c", folder.id))
        assert not found.ranked
    await store.aclose()
