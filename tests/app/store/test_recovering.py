"""Recovery of a damaged database: offered until it is done or declined, and done only once."""

from pathlib import Path

from app.store.conversation_store import SqliteConversationStore
from tests.app.store.conftest import BAD_SCHEMA, Use, changed, recovered, write
from tests.support.answers.said import conversation
from ui.records.store import Recovered


def test_a_file_with_a_bad_byte_in_the_schema_is_set_aside_and_fully_recovered(
    use: Use, path: Path
) -> None:
    use(write)
    changed(path, BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        assert store.problem is not None
        assert store.problem.can_be_recovered
        assert store.load_all() == []
        outcome, found = await recovered(store)
        assert outcome == Recovered(conversations=3, messages=6)
        assert sorted(one.title for one in found) == ["Talk 0", "Talk 1", "Talk 2"]
        assert {message.text for one in found for message in one.tree} == {
            "1 2 3", "question 0", "question 1", "question 2",
        }  # fmt: skip
        assert [one.settings for one in found] == [conversation().settings] * 3


def test_recovered_conversations_are_stored_and_never_recovered_twice(use: Use, path: Path) -> None:
    use(write)
    changed(path, BAD_SCHEMA)

    async def steps(store: SqliteConversationStore) -> None:
        await recovered(store)
        again, _ = await recovered(store)
        assert again == Recovered()

    async def later(store: SqliteConversationStore) -> None:
        assert store.problem is None
        assert len(store.load_all()) == 3
        assert len(await store.search("question")) == 3

    use(steps)
    use(later)


def test_a_damaged_file_is_offered_at_every_start_until_it_is_recovered(
    use: Use, path: Path
) -> None:
    use(write)
    changed(path, BAD_SCHEMA)
    use(write)  # the session that finds the damage, and ends

    async def next_time(store: SqliteConversationStore) -> None:
        assert store.problem is not None
        assert store.problem.can_be_recovered
        assert store.problem.path is not None
        assert "not been recovered" in store.problem.sentence
        assert len(store.load_all()) == 3
        outcome, _ = await recovered(store)
        assert outcome == Recovered(conversations=3, messages=6)

    async def after_that(store: SqliteConversationStore) -> None:
        assert store.problem is None
        assert len(store.load_all()) == 6

    use(next_time)
    use(after_that)


def test_a_recovery_that_was_cancelled_is_offered_again(use: Use, path: Path) -> None:
    use(write)
    changed(path, BAD_SCHEMA)

    async def cancelled(store: SqliteConversationStore) -> None:
        await store.recover(lambda *_: None, lambda: True)

    async def next_time(store: SqliteConversationStore) -> None:
        assert store.problem is not None
        assert store.problem.can_be_recovered

    use(cancelled)
    use(next_time)


def test_a_damaged_file_that_nobody_wants_is_kept_and_not_offered_again(
    use: Use, path: Path
) -> None:
    use(write)
    changed(path, BAD_SCHEMA)
    kept: list[Path] = []

    async def declined(store: SqliteConversationStore) -> None:
        assert store.problem is not None
        assert store.problem.path is not None
        kept.append(store.problem.path)
        store.decline_recovery()

    async def next_time(store: SqliteConversationStore) -> None:
        assert store.problem is None

    use(declined)
    use(next_time)
    assert kept[0].is_file()


def test_messages_whose_conversation_was_lost_get_a_new_one(use: Use, path: Path) -> None:
    use(write)
    changed(path, "DELETE FROM conversations", BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        outcome, found = await recovered(store)
        assert (outcome.conversations, outcome.messages) == (3, 6)
        assert {one.title for one in found} == {"Recovered conversation"}


def test_the_messages_after_a_lost_one_follow_those_before_it(use: Use, path: Path) -> None:
    @use
    async def long(store: SqliteConversationStore) -> None:
        one = conversation("first")
        for text in ("second", "third", "fourth"):
            one.add(type(one.messages[0])("user", text))
        store.save(one)
        store.save_messages(one, list(one.tree))

    changed(path, "DELETE FROM messages WHERE text = 'third'", BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        _, (one,) = await recovered(store)
        assert [message.text for message in one.messages] == [
            "first", "1 2 3", "second", "fourth",
        ]  # fmt: skip


def test_deleted_messages_are_not_recovered(use: Use, path: Path) -> None:
    use(write)
    changed(path, "UPDATE conversations SET deleted_at = 1 WHERE title = 'Talk 1'", BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        _, found = await recovered(store)
        assert sorted(one.title for one in found) == ["Talk 0", "Talk 2"]


def test_another_programs_file_is_not_offered_for_recovery(use: Use, path: Path) -> None:
    path.parent.mkdir()
    changed(path, "CREATE TABLE bookmarks (url TEXT)")

    @use
    async def steps(store: SqliteConversationStore) -> None:
        assert store.problem is not None
        assert not store.problem.can_be_recovered
        assert await store.recover(lambda *_: None, lambda: False) == Recovered()


def test_a_cancelled_recovery_keeps_its_results_and_can_be_completed(use: Use, path: Path) -> None:
    use(write)
    changed(path, BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        outcome = await store.recover(lambda *_: None, lambda: True)
        assert outcome.messages == 0
        whole = await store.recover(lambda *_: None, lambda: False)
        assert (outcome.conversations + whole.conversations, whole.messages) == (3, 6)


def test_the_copy_for_the_recovery_is_deleted_afterwards(use: Use, path: Path) -> None:
    use(write)
    changed(path, BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        await recovered(store)
        assert not [found for found in path.parent.iterdir() if found.is_dir()]
