import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore
from engine import ToolCall
from tests.app.store.conftest import opened, stored
from tests.support.answers.said import conversation, finished_run
from ui.records.conversations import Conversation, Placement
from ui.records.messages import ConversationMessage, copied_below
from ui.records.runs import Run, RunState
from ui.records.store import (
    EVERYWHERE,
    MOST_HITS,
    MemoryConversationStore,
    SearchFilter,
    Speaker,
)
from ui.records.tool_calls import CallResult, CallState


async def keep(
    store: SqliteConversationStore | MemoryConversationStore, *texts: str, title: str = "T"
) -> Conversation:
    written = Conversation(title, [ConversationMessage("user", text) for text in texts])
    store.save(written)
    store.save_messages(written, list(written.tree))
    return written


async def found(store: SqliteConversationStore, query: str) -> list[str]:
    return [hit.snippet for hit in await store.search(query)]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("stop", True),
        ("STOP", True),
        ("oppin", True),
        ("st", True),
        ("序列", True),
        ("停止序列", True),
        ("Ä", True),
        ("ä", True),
        ("stopping where", True),
        ("where stopping", True),
        ("ST where", True),
        ('"of the"', True),
        ('"the of"', False),
        ("100%", True),
        ("1_0", False),
        ('say "', True),
        ("absent", False),
        ("stopping absent", False),
        ("NEAR", False),
        ("x", False),
        ("*", False),
    ],
)
async def test_words_are_found_anywhere_in_a_text(path: Path, query: str, is_found: bool) -> None:
    async with opened(path) as store:
        await keep(store, 'Stopping of the answer: say "where", 停止序列, ändern, 100% sure')
        assert bool(await store.search(query)) is is_found


async def test_an_empty_query_finds_nothing(path: Path) -> None:
    async with opened(path) as store:
        await keep(store, "words")
        assert await store.search("  ") == []
        assert await store.search('""') == []


async def test_a_text_about_the_words_comes_before_one_that_mentions_them(path: Path) -> None:
    async with opened(path) as store:
        await keep(store, "tokenizer, tokenizer, tokenizer", "other things " * 60 + "tokenizer")
        first, second = await found(store, "tokenizer")
        assert first.startswith("tokenizer")
        assert second.startswith("…")


async def test_a_title_comes_first_and_has_no_message(path: Path) -> None:
    async with opened(path) as store:
        await keep(store, "about cats")
        named = await keep(store, "nothing", title="Cats and dogs")
        hits = await store.search("cats")
        assert (hits[0].conversation_id, hits[0].message_id, hits[0].role) == (
            named.id,
            None,
            "title",
        )
        assert [hit.role for hit in hits] == ["title", "user"]


async def test_a_message_is_found_right_after_it_was_sent(path: Path) -> None:
    async with opened(path) as store:
        await keep(store, "about cats")
        ends_at = time.monotonic() + 60
        while not stored(path) and time.monotonic() < ends_at:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop must not hear that it is written
        await keep(store, "and dogs")
        assert len(await store.search("dogs")) == 1


async def test_the_snippet_shows_the_words_and_marks_them(path: Path) -> None:
    async with opened(path) as store:
        await keep(store, "long ago " * 50 + "\nthe needle lies\there" + " and more" * 50)
        (hit,) = await store.search("NEEDLE here")
        assert "the needle lies here" in hit.snippet
        marked = [hit.snippet[start : start + length] for start, length in hit.spans]
        assert marked == ["needle", "here"]


async def test_an_answer_is_found_once_it_has_ended_and_hidden_versions_are_too(path: Path) -> None:
    async with opened(path) as store:
        written = conversation("Count", "alpha beta")
        run = Run(state=RunState.STREAMING, text="gamma del")
        answer = ConversationMessage("assistant", run=run)
        written.tree.add(answer, written.messages[0])
        store.save(written)
        store.save_messages(written, list(written.tree))
        assert await found(store, "gamma") == []
        assert await found(store, "alpha") == ["alpha beta"]
        answer.run = finished_run("gamma delta")
        store.save_messages(written, [answer])
        store.save_messages(written, [answer])
        assert await found(store, "gamma") == ["gamma delta"]


async def test_deleted_messages_are_not_found(path: Path) -> None:

    async with opened(path) as store:
        gone = await keep(store, "a needle")
        store.delete(gone)
        assert await found(store, "needle") == []
        assert await found(store, "ne") == []
        store.restore(gone)
        assert await found(store, "needle") == ["a needle"]
        store.delete(gone)
    async with opened(path) as store:
        assert await found(store, "needle") == []


async def test_an_interrupted_answer_is_found_after_the_next_start(path: Path) -> None:

    async with opened(path) as store:
        written = Conversation("T", [ConversationMessage("user", "q")])
        written.add(
            ConversationMessage("assistant", run=Run(state=RunState.STREAMING, text="half a word"))
        )
        store.save(written)
        store.save_messages(written, list(written.tree))
    async with opened(path) as store:
        assert await found(store, "half") == ["half a word"]


async def test_thousands_of_messages_are_searched(path: Path) -> None:
    words = ("stop", "sequence", "token", "model", "answer", "prompt", "cache", "engine", "window")

    def text(number: int) -> str:
        picked = (words[(number * k + k) % len(words)] for k in range(1, 14))
        return f"message {number}: {' '.join(picked)}"

    async with opened(path) as store:
        for number in range(8):
            texts = (text(number * 500 + n) for n in range(500))
            await keep(store, *texts, title=f"Conversation {number}")
        await store.flush()
        (found,) = await store.search("message 3500:")
        assert found.snippet.startswith("message 3500:")
        assert await store.search("zz") == []
        for query in ("token engine", "pro", "ca mo"):
            assert len(await store.search(query)) == MOST_HITS


async def test_a_message_that_follows_two_versions_is_found_only_once(
    path: Path,
) -> None:
    asked = conversation("Count", "1 2 3")
    asked.add(ConversationMessage("user", "zebras, and then?"))
    first, follow_up = asked.messages[1:]
    longer = ConversationMessage("assistant", "1 2 3 4")
    (copy,) = copied_below([follow_up], longer)
    asked.tree.add(longer, first.parent)
    asked.tree.add(copy, longer)

    async with opened(path) as store:
        store.save(asked)
        store.save_messages(asked, list(asked.tree))
        for query in ("zebras", "ze"):
            (hit,) = await store.search(query)
            assert hit.message_id == copy.id


async def keep_worked(
    store: SqliteConversationStore | MemoryConversationStore, title: str = "Worked"
) -> Conversation:
    """Keep a conversation whose answer thought, and called a tool."""
    run = finished_run(
        "The answer is blue.",
        thinking="Perhaps a quokka said it.",
        tool_calls=[ToolCall("c1", "look_up", '{"where": "zeppelin archive"}')],
        results=[CallResult("c1", CallState.DONE, "Nothing about 停止序列 there.", tool="look_up")],
    )
    question = ConversationMessage("user", "What color is it?")
    written = Conversation(title, [question, ConversationMessage("assistant", run=run)])
    store.save(written)
    store.save_messages(written, list(written.tree))
    return written


async def roles(
    store: SqliteConversationStore | MemoryConversationStore,
    query: str,
    wanted: SearchFilter = EVERYWHERE,
) -> list[str]:
    return sorted(hit.role for hit in await store.search(query, wanted))


@pytest.mark.parametrize("is_in_memory", [False, True])
@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("quokka", "thinking"),
        ("qu said", "thinking"),
        ("zeppelin", "tool"),
        ("look_up", "tool"),
        ("ze", "tool"),
        ("停止序列", "tool"),
        ("blue", "assistant"),
        ("color", "user"),
    ],
)
async def test_reasoning_and_tool_calls_are_searched_too(
    path: Path, query: str, role: str, is_in_memory: bool
) -> None:
    async with opened(path) as file:
        store = MemoryConversationStore() if is_in_memory else file
        written = await keep_worked(store)
        (hit,) = await store.search(query)
        assert (hit.role, hit.conversation_id) == (role, written.id)
        assert hit.message_id in [message.id for message in written.messages]
        assert hit.spans


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_a_search_is_narrowed_to_folder_time_and_speaker(
    path: Path, is_in_memory: bool
) -> None:
    async with opened(path) as file:
        store = MemoryConversationStore() if is_in_memory else file
        written = await keep_worked(store, title="the first")
        other = await keep(store, "the other one", title="Second")
        written.placement = Placement("folder-1")
        other.messages[0].created_at = 1_000.0
        for one in (written, other):
            store.save(one)
            store.save_messages(one, list(one.tree))
        await store.flush()
        who = Speaker
        assert await roles(store, "the") == ["assistant", "title", "tool", "user"]
        assert await roles(store, "the", SearchFilter(folder_id="folder-1")) == [
            "assistant", "title", "tool",
        ]  # fmt: skip
        assert await roles(store, "the", SearchFilter(folder_id="folder-1", speaker=who.MODEL)) == [
            "assistant"
        ]
        assert await roles(store, "the", SearchFilter(speaker=who.YOU)) == ["user"]
        assert await roles(store, "the", SearchFilter(speaker=who.TOOL)) == ["tool"]
        assert await roles(store, "the", SearchFilter(since=2_000.0, speaker=who.YOU)) == []
        assert await roles(store, "said", SearchFilter(speaker=who.MODEL)) == ["thinking"]


async def test_matches_of_a_narrowed_search_are_found_among_thousands_of_newer_ones(
    path: Path,
) -> None:
    async with opened(path) as store:
        first = await keep(store, "a needle in the folder")
        first.placement = Placement("folder-1")
        store.save(first)
        await keep(store, *(f"a needle and {n}" for n in range(1_200)))
        assert await roles(store, "needle", SearchFilter(folder_id="folder-1")) == ["user"]
        assert len(await store.search("needle", EVERYWHERE, 1_150)) == 1_150


async def test_work_that_is_deleted_or_replaced_is_found_no_more(path: Path) -> None:
    async with opened(path) as store:
        written = await keep_worked(store)
        answer = written.messages[1]
        assert answer.run is not None
        answer.run.thinking = "Perhaps a wombat."
        store.save_messages(written, [answer])
        assert await roles(store, "quokka") == []
        assert await roles(store, "wombat") == ["thinking"]
        store.delete_messages(written, [answer])
        assert await roles(store, "wombat") == []
        store.save_messages(written, [answer])
        assert await roles(store, "wombat") == ["thinking"]
        store.delete(written)
        assert await roles(store, "wombat") == []
        await store.flush()

    with closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL")
        file.execute("PRAGMA foreign_keys = ON")
        file.execute("DELETE FROM conversations")
        file.execute("INSERT INTO worked(worked) VALUES ('integrity-check')")


async def test_a_run_that_is_no_json_is_not_searched_and_harms_nothing(path: Path) -> None:
    async with opened(path) as store:
        await keep_worked(store)
        await store.flush()

    for run in ("{", "[]", '{"thinking": 7}', '{"tool_calls": 7, "thinking": "quokka"}', "", None):
        with closing(sqlite3.connect(path)) as file:
            file.execute("UPDATE messages SET run = ? WHERE role = 'assistant'", (run,))
            file.commit()

        async with opened(path) as store:
            assert await roles(store, "zeppelin") == []
            assert await roles(store, "blue") == ["assistant"]
