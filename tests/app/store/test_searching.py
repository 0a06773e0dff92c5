from pathlib import Path

import pytest

from app.store.conversation_store import SqliteConversationStore
from engine.values.request import ToolCall
from tests.app.store.conftest import opened
from tests.support.answers.said import conversation, finished_run
from ui.records.conversations import Conversation, Placement
from ui.records.messages import ConversationMessage, copied_below
from ui.records.runs import Run
from ui.records.store import EVERYWHERE, SearchFilter
from ui.records.tool_calls import CallResult


async def keep(store: SqliteConversationStore, *texts: str, title: str = "T") -> Conversation:
    written = Conversation(title, [ConversationMessage("user", text) for text in texts])
    store.save(written)
    store.save_messages(written, list(written.tree))
    return written


async def found(store: SqliteConversationStore, query: str) -> list[str]:
    return [hit.snippet for hit in await store.search(query)]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("STOP", True),
        ("st", True),
        ("序列", True),
        ("Ä", True),
        ("stopping where", True),
        ('"the of"', False),
        ("100%", True),
        ("1_0", False),
        ("stopping absent", False),
        ("NEAR", False),
    ],
)
async def test_search_finds_substrings(path: Path, query: str, is_found: bool) -> None:
    async with opened(path) as store:
        await keep(store, 'Stopping of the answer: say "where", 停止序列, ändern, 100% sure')
        assert bool(await store.search(query)) is is_found


async def test_search_title_comes_first(path: Path) -> None:
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


async def test_search_finds_ended_answers_and_hidden_versions(path: Path) -> None:
    async with opened(path) as store:
        written = conversation("Count", "alpha beta")
        run = Run(state="streaming", text="gamma del")
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


async def test_search_omits_deleted_messages(path: Path) -> None:

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


async def test_search_finds_shared_message_once(path: Path) -> None:
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


async def keep_worked(store: SqliteConversationStore, title: str = "Worked") -> Conversation:
    run = finished_run(
        "The answer is blue.",
        thinking="Perhaps a quokka said it.",
        tool_calls=[ToolCall("c1", "look_up", '{"where": "zeppelin archive"}')],
        results=[CallResult("c1", "done", "Nothing about 停止序列 there.", tool="look_up")],
    )
    question = ConversationMessage("user", "What color is it?")
    written = Conversation(title, [question, ConversationMessage("assistant", run=run)])
    store.save(written)
    store.save_messages(written, list(written.tree))
    return written


async def roles(
    store: SqliteConversationStore,
    query: str,
    wanted: SearchFilter = EVERYWHERE,
) -> list[str]:
    return sorted(hit.role for hit in await store.search(query, wanted))


@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("quokka", "thinking"),
        ("ze", "tool"),
        ("color", "user"),
    ],
)
async def test_search_in_reasoning_and_tool_calls(path: Path, query: str, role: str) -> None:
    async with opened(path) as store:
        written = await keep_worked(store)
        (hit,) = await store.search(query)
        assert (hit.role, hit.conversation_id) == (role, written.id)
        assert hit.message_id in [message.id for message in written.messages]
        assert hit.spans


async def test_search_filter(path: Path) -> None:
    async with opened(path) as store:
        written = await keep_worked(store, title="the first")
        other = await keep(store, "the other one", title="Second")
        written.placement = Placement("folder-1")
        other.messages[0].created_at = 1_000.0
        for one in (written, other):
            store.save(one)
            store.save_messages(one, list(one.tree))
        await store.flush()
        assert await roles(store, "the") == ["assistant", "title", "tool", "user"]
        assert await roles(store, "the", SearchFilter(folder_id="folder-1")) == [
            "assistant", "title", "tool",
        ]  # fmt: skip
        assert await roles(store, "the", SearchFilter(folder_id="folder-1", speaker="model")) == [
            "assistant"
        ]
        assert await roles(store, "the", SearchFilter(speaker="you")) == ["user"]
        assert await roles(store, "the", SearchFilter(speaker="tool")) == ["tool"]
        assert await roles(store, "the", SearchFilter(since=2_000.0, speaker="you")) == []
        assert await roles(store, "the", SearchFilter(folder_id="folder-1", since=1e12)) == []
        assert await roles(store, "said", SearchFilter(speaker="model")) == ["thinking"]
