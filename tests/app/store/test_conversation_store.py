import asyncio
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore, StoreUnavailable, open_store
from engine import StopRules
from tests.app.store.conftest import Use
from tests.support.answers.said import conversation, finished_run
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import ChosenModel, Conversation, ConversationSettings, StopEntry
from ui.records.messages import ConversationMessage, runs_of
from ui.records.messages import question as question_with
from ui.records.runs import Run, RunState


def kept(use: Use, *conversations: Conversation) -> None:
    @use
    async def steps(store: SqliteConversationStore) -> None:
        for one in conversations:
            store.save(one)
            store.save_messages(one, list(one.tree))


def read(use: Use) -> list[Conversation]:
    async def steps(store: SqliteConversationStore) -> list[Conversation]:
        found = store.load_all()
        for one in found:
            await store.fill(one)
        return found

    result: list[Conversation] = use(steps)
    return result


def test_a_conversation_is_read_back_unchanged(use: Use) -> None:
    written = conversation("Count\x00é😀")
    written.is_pinned = True
    kept(use, written)
    (found,) = read(use)
    for name in ("id", "title", "settings", "stops", "draft", "created_at", "updated_at"):
        assert getattr(found, name) == getattr(written, name)
    assert found.is_pinned
    assert [(m.role, m.text, m.id) for m in found.messages] == [
        (m.role, m.text, m.id) for m in written.messages
    ]


def test_a_conversation_is_read_back_with_its_model(use: Use, tmp_path: Path) -> None:
    written, without = conversation(), conversation()
    written.model = ChosenModel("org/name-4bit", tmp_path.resolve())
    kept(use, written, without)
    found = {one.id: one.model for one in read(use)}
    assert found == {written.id: written.model, without.id: None}


def test_a_run_is_read_back_with_its_reason_figures_and_stops(use: Use) -> None:
    written = conversation()
    kept(use, written)
    (found,) = read(use)
    before, after = written.messages[1].run, found.messages[1].run
    assert before is not None
    assert after is not None
    for field in fields(Run):
        if field.compare and not field.name.startswith("_"):
            assert getattr(after, field.name) == getattr(before, field.name), field.name


def test_versions_and_the_shown_one_are_read_back(use: Use) -> None:
    written = conversation()
    question, first = written.messages
    written.tree.add(ConversationMessage("assistant", "two", finished_run("two")), question)
    written.tree.add(ConversationMessage("user", "edited"), None)
    written.tree.show(first)
    kept(use, written)
    (found,) = read(use)
    assert [m.said for m in found.messages] == ["Count", "1 2 3"]
    assert [m.said for m in found.tree.versions(found.messages[1])] == ["1 2 3", "two"]
    assert [m.said for m in found.tree.versions(found.messages[0])] == ["Count", "edited"]


def test_only_the_newest_conversation_is_read_at_the_start(use: Use) -> None:
    old, new = conversation("old", "the last words"), conversation()
    old.updated_at, new.updated_at = 1, 2
    kept(use, old, new)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        first, second = store.load_all()
        assert (first.id, first.is_loaded) == (new.id, True)
        assert (second.is_loaded, second.has_messages) == (False, True)
        assert second.preview == "the last words"
        await store.fill(second)
        assert len(second.messages) == 2


def test_the_preview_after_a_restart_shows_the_shown_version(use: Use) -> None:
    branched = conversation("old", "the shown answer")
    question, shown = branched.messages
    branched.tree.add(ConversationMessage("assistant", "a later version"), question)
    branched.tree.add(ConversationMessage("user", "a later question"), None)
    branched.tree.show(shown)
    # The newest version is shown, and nothing follows it.
    blank = conversation("older", "an earlier answer")
    blank.tree.add(ConversationMessage("assistant", "the newest answer"), blank.messages[0])
    blank.add(ConversationMessage("user", " \n"))
    # The preview is the typed text, and not the files before it; without text, it is the files.
    asked, silent = Conversation(), Conversation()
    asked.add(question_with("\n What is in it?", (Attachment("ü.txt", "all of it"),)))
    silent.add(question_with(" ", (Attachment("ü.txt", "all of it"),)))
    branched.updated_at, blank.updated_at, asked.updated_at, silent.updated_at = 4, 3, 2, 1
    kept(use, conversation(), branched, blank, asked, silent)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        _, *others = store.load_all()
        assert not any(one.is_loaded for one in others)
        previews = [one.preview for one in others]
        assert previews == [one.preview for one in (branched, blank, asked, silent)]
        assert previews[:3] == ["the shown answer", "the newest answer", "What is in it?"]
        assert previews[3].startswith("ü.txt")


def test_a_running_answer_counts_as_interrupted_after_a_restart(use: Use) -> None:
    written = conversation()
    run = Run(rules=StopRules.of("x"), state=RunState.STREAMING, text="half of")
    written.add(ConversationMessage("user", "more"))
    written.add(ConversationMessage("assistant", run=run))
    kept(use, written)
    (found,) = read(use)
    answer = found.messages[-1].run
    assert answer is not None
    assert (answer.state, answer.text, answer.stops) == (RunState.INTERRUPTED, "half of", ("x",))
    assert answer.is_over
    assert answer.can_be_continued


def test_a_growing_answer_replaces_its_earlier_text(use: Use) -> None:
    written = conversation()
    run = Run(state=RunState.STREAMING, text="one")
    answer = ConversationMessage("assistant", run=run)
    written.add(answer)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        store.save(written)
        store.save_messages(written, list(written.tree))
        run.text += " two"
        store.save_messages(written, [answer])

    (found,) = read(use)
    assert [m.said for m in found.messages] == ["Count", "1 2 3", "one two"]


def test_a_deletion_can_be_undone_until_the_program_ends(use: Use, path: Path) -> None:
    gone, back = conversation("secret words"), conversation()
    kept(use, gone, back)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        for one in store.load_all():
            store.delete(one)
        store.restore(back)

    assert [c.id for c in read(use)] == [back.id]
    assert b"secret words" not in path.read_bytes()


def test_presets_are_kept_by_name(use: Use) -> None:
    first = Preset(
        "Terse", ConversationSettings("Be brief.", temperature=0.2), (StopEntry.of("\n"),)
    )

    async def write(store: SqliteConversationStore) -> None:
        store.save_preset(Preset("Terse", ConversationSettings()))
        store.save_preset(first)
        store.save_preset(Preset("Gone", ConversationSettings()))
        store.delete_preset("Gone")

    async def presets(store: SqliteConversationStore) -> list[Preset]:
        return store.load_presets()

    use(write)
    assert use(presets) == [first]


def test_half_of_a_surrogate_pair_does_not_prevent_saving(use: Use) -> None:
    written = Conversation("a\ud83d", [ConversationMessage("user", "b\ude00c")])
    kept(use, written)
    (found,) = read(use)
    assert found.messages[0].text == "b\ufffdc"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(open_store(tmp_path / "file" / "conversations.db"))
    assert str(tmp_path / "file") in caught.value.problem.detail


def test_another_program_can_read_the_file_while_this_one_runs(use: Use, path: Path) -> None:
    @use
    async def steps(store: SqliteConversationStore) -> None:
        written = conversation()
        store.save(written)
        store.save_messages(written, list(written.tree))
        await store.settled()
        reader = sqlite3.connect(path)
        (count,) = reader.execute("SELECT count(*) FROM messages").fetchone()
        reader.close()
        assert count == 2


def test_only_the_newest_empty_conversation_is_kept(use: Use) -> None:
    empty = [Conversation(f"empty {n}", updated_at=n) for n in range(3)]
    drafted, pinned = Conversation("d", draft="words"), Conversation("p", is_pinned=True)
    for one in (drafted, pinned):
        one.updated_at = 0
    kept(use, *empty, drafted, pinned)
    assert {c.title for c in read(use)} == {"empty 2", "d", "p"}


def test_the_newest_answers_of_all_conversations_are_listed_with_their_questions(use: Use) -> None:
    older, newer, gone = conversation("first?"), conversation("second?"), conversation("gone?")
    imported, unrecorded = conversation("imported?"), conversation("unrecorded?")
    for run in runs_of(imported.tree):
        run.is_imported = True
    for run in runs_of(unrecorded.tree):
        run.state = RunState.UNRECORDED
    for one in (older, newer, gone, imported, unrecorded):
        kept(use, one)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        store.delete(next(one for one in store.load_all() if one.id == gone.id))
        found = await store.recent_runs(10)
        assert [(past.conversation_id, past.question) for past in found] == [
            (newer.id, "second?"),
            (older.id, "first?"),
        ]
        assert found[0].run.finished == newer.messages[1].run.finished  # type: ignore[union-attr]
        assert len(await store.recent_runs(1)) == 1
