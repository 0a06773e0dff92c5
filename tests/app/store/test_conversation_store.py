from dataclasses import fields
from pathlib import Path

from engine.stopping.rules import StopRules
from tests.app.store.conftest import keep, opened
from tests.support.answers.said import conversation, finished_run
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage, runs_of
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry


async def kept(path: Path, *conversations: Conversation) -> None:
    async with opened(path) as store:
        keep(store, *conversations)


async def read(path: Path) -> list[Conversation]:
    async with opened(path) as store:
        conversations = store.conversations()
        for one in conversations:
            await store.fill(one)
        return conversations


async def test_store_conversation_round_trip(path: Path) -> None:
    written = conversation("Count\x00é😀")
    written.is_pinned = True
    await kept(path, written)
    (found,) = await read(path)
    for name in ("id", "title", "settings", "stops", "draft", "created_at", "updated_at"):
        assert getattr(found, name) == getattr(written, name)
    assert found.is_pinned
    assert [(m.role, m.text, m.id) for m in found.messages] == [
        (m.role, m.text, m.id) for m in written.messages
    ]


async def test_store_run_round_trip(path: Path) -> None:
    written = conversation()
    await kept(path, written)
    (found,) = await read(path)
    before, after = written.messages[1].run, found.messages[1].run
    assert before is not None
    assert after is not None
    for field in fields(Run):
        if field.compare:
            assert getattr(after, field.name) == getattr(before, field.name), field.name


async def test_store_versions_round_trip(path: Path) -> None:
    written = conversation()
    question, first = written.messages
    written.tree.add(ConversationMessage("assistant", "two", finished_run("two")), question)
    written.tree.add(ConversationMessage("user", "edited"), None)
    written.tree.show(first)
    await kept(path, written)
    (found,) = await read(path)
    assert [m.content for m in found.messages] == ["Count", "1 2 3"]
    assert [m.content for m in found.tree.versions(found.messages[1])] == ["1 2 3", "two"]
    assert [m.content for m in found.tree.versions(found.messages[0])] == ["Count", "edited"]


async def test_store_loads_newest_conversation_at_start(path: Path) -> None:
    old, new = conversation("old", "the last words"), conversation()
    old.updated_at, new.updated_at = 1, 2
    await kept(path, old, new)

    async with opened(path) as store:
        first, second = store.conversations()
        assert (first.id, first.is_loaded) == (new.id, True)
        assert (second.is_loaded, second.has_messages) == (False, True)
        await store.fill(second)
        assert len(second.messages) == 2


async def test_store_running_answer_becomes_interrupted(path: Path) -> None:
    written = conversation()
    run = Run(rules=StopRules.of("x"), state="streaming", text="half of")
    written.add(ConversationMessage("user", "more"))
    written.add(ConversationMessage("assistant", run=run))
    await kept(path, written)
    (found,) = await read(path)
    answer = found.messages[-1].run
    assert answer is not None
    assert (answer.state, answer.text, answer.stops) == ("interrupted", "half of", ("x",))
    assert answer.is_over
    assert answer.can_be_continued


async def test_store_deletion_can_be_undone(path: Path) -> None:
    gone, back = conversation("secret words"), conversation()
    await kept(path, gone, back)

    async with opened(path) as store:
        for one in store.conversations():
            store.delete(one)
        store.restore(back)

    assert [c.id for c in await read(path)] == [back.id]
    assert b"secret words" not in path.read_bytes()


async def test_store_presets(path: Path) -> None:
    first = Preset(
        "Terse", ConversationSettings("Be brief.", temperature=0.2), (StopEntry.of("\n"),)
    )

    async with opened(path) as store:
        store.save_preset(Preset("Terse", ConversationSettings()))
        store.save_preset(first)
        store.save_preset(Preset("Gone", ConversationSettings()))
        store.delete_preset("Gone")
    async with opened(path) as store:
        assert store.presets() == [first]


async def test_store_lone_surrogate_is_replaced(path: Path) -> None:
    written = Conversation("a\ud83d", [ConversationMessage("user", "b\ude00c")])
    await kept(path, written)
    (found,) = await read(path)
    assert found.messages[0].text == "b\ufffdc"


async def test_store_recent_runs(path: Path) -> None:
    older, newer, gone = conversation("first?"), conversation("second?"), conversation("gone?")
    imported, unrecorded = conversation("imported?"), conversation("unrecorded?")
    for run in runs_of(imported.tree):
        run.is_imported = True
    for run in runs_of(unrecorded.tree):
        run.state = "unrecorded"
    for one in (older, newer, gone, imported, unrecorded):
        await kept(path, one)

    async with opened(path) as store:
        store.delete(next(one for one in store.conversations() if one.id == gone.id))
        found = await store.recent_runs(10)
        assert [(past.conversation_id, past.question) for past in found] == [
            (newer.id, "second?"),
            (older.id, "first?"),
        ]
        assert found[0].run.finished == newer.messages[1].run.finished  # type: ignore[union-attr]
        assert len(await store.recent_runs(1)) == 1


async def kept_texts(path: Path) -> list[str]:
    async with opened(path) as store:
        (found,) = store.conversations()
        await store.fill(found)
        return [message.text for message in found.messages]


async def test_store_deleted_messages(path: Path) -> None:
    said = conversation()
    async with opened(path) as store:
        keep(store, said)
        await store.flush()
        answer = said.messages[-1]
        removed = said.tree.remove(answer)
        assert removed == [answer]
        store.delete_messages(said, removed)
        await store.flush()
        assert await store.search("1 2 3") == []
    assert await kept_texts(path) == ["Count"]
    async with opened(path) as store:
        said.tree.put_back(removed)
        store.save_messages(said, removed)
        await store.flush()
        assert len(await store.search("1 2 3")) == 1
    assert await kept_texts(path) == ["Count", "1 2 3"]
