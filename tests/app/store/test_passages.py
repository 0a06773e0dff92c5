"""The passages of documents are found, survive damage, and go with their documents."""

import asyncio
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from app.store.conversation_store import open_store
from app.store.passages import find_passages, passages_without_vector, save_vectors
from app.store.schema import migrate
from tests.support.outside.manual import QUESTIONS, manual_pages, plain
from ui.records.attachments import Attachment, text_of_pages
from ui.records.conversations import Conversation
from ui.records.messages import question
from ui.records.passages import (
    Document,
    Found,
    PassageSearch,
    QuestionVector,
    fitting_excerpts,
    passages_of,
)

PAGES = manual_pages()
MANUAL = Document("manual.pdf", text_of_pages(PAGES, 1, len(PAGES)), first_page=1)
# Three tokens for two words, as many as a 4,096-token context leaves beside a question.
ROOM = 2_600


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        migrate(opened)
        yield opened


def find(connection: sqlite3.Connection, documents: Sequence[Document], *questions: str) -> Found:
    return find_passages(connection, PassageSearch(documents, questions, "c"))


def first_text(found: Found) -> str:
    return found.ranked[0][1].text


async def count(text: str) -> int:
    return len(text.split()) * 3 // 2


def pages_read(found: Found) -> set[int]:
    (excerpt,) = asyncio.run(fitting_excerpts(found, ROOM, count))
    return {n for p in excerpt.passages for n in range(p.page, p.last_page + 1)}


def test_manual_questions_reach_their_page(connection: sqlite3.Connection) -> None:
    missed = []
    for asked, answer in QUESTIONS:
        right = {n for n, text in enumerate(PAGES, 1) if answer in plain(text)}
        assert right, answer
        if not right & pages_read(find(connection, [MANUAL], asked)):
            missed.append(asked)
    assert len(QUESTIONS) >= 30
    assert len(missed) <= len(QUESTIONS) * 0.1, missed


def test_few_passages_are_found_where_few_match(connection: sqlite3.Connection) -> None:
    filler = "the tenant pays and repairs what is broken in the house " * 20
    parts = [f"# {n}\n\n{filler}" + " thanks" * (n % 3 == 0) for n in range(60)]
    parts[7] += " the deposit of the garage is due in spring"
    parts[9] += " deposit" * 9
    parts[11] += " deposit"
    document = Document("lease.txt", "\n\n".join(parts))
    found = find(connection, [document], "Thanks, when is the garage deposit due?")
    assert [passage.number for _, passage in found.ranked] == [7, 9], "not the 20 with thanks"
    found = find(connection, [document], "And the deposit?")
    assert {passage.number for _, passage in found.ranked} == {7, 9, 11}
    assert len(find(connection, [document], "Thanks").ranked) == 20, "as many as match"


def test_unknown_words_are_looked_up_together() -> None:
    document = Document("lease.txt", "The Mietkautionskonto. The Hausordnung.")
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        migrate(opened)
        opened.set_trace_callback(statements.append)
        found = find(opened, [document], "kaution hausordnungen " + "unknown-a unknown-b " * 9)
    assert len(found.ranked) == 1
    assert sum("passage_vocabulary WHERE" in each for each in statements) == 1


HOSTILE = (
    '" OR text : * NEAR(a b) ^x -y {z}',
    "a\0b \x00 OR",
    "AND OR NOT NEAR",
    "y" * 100_000,
    " ".join(f"w{n}" for n in range(5_000)),
    "\u202eمرحبا بالعالم \u200f",
    "",
    "\n" * 10_000,
    "'; DROP TABLE passages; --",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_searched_as_text(connection: sqlite3.Connection, text: str) -> None:
    document = Document("h.txt", f"{text}\n\nThe harmless end.")
    found = find(connection, [document], f"harmless {text}")
    assert "".join(passage.text for _, passage in found.ranked)
    assert find(connection, [MANUAL], text).ranked


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("乙方可以提前三十天书面通知终止合同。", "终止合同要怎么做？", "终止合同"),
        ("契約の解除は書面による通知が必要です。", "契約を解除するには？", "契約の解除"),
        ("계약의 해지는 서면으로 통지해야 한다.", "계약을 해지하려면?", "계약의 해지"),
        ("Die Kündigungsfrist beträgt drei Monate.", "Welche Frist gilt?", "Kündigungsfrist"),
        ("Die Frist dafür beträgt drei Monate.", "Wie lang ist die Kündigungsfrist?", "Frist"),
        ("Le délai est de trois mois.", "Quel delai ?", "délai"),
        ("The limits were exceeded twice.", "Which limit exceeds?", "limits"),
    ],
)
def test_languages_find_their_passage(
    connection: sqlite3.Connection, text: str, question: str, answer: str
) -> None:
    filler = "\n\n".join(f"# Teil {n}\n\n" + f"lorem{n} ipsum dolor " * 80 for n in range(9))
    document = Document("d.txt", f"{filler}\n\n# Schluss\n\n{text}\n\n{'lorem sit ' * 80}")
    found = find(connection, [document], question)
    assert not found.is_spread
    assert answer in first_text(found)


@pytest.mark.parametrize("question", ["Summarise this", "总结一下", "", "xyzzy?"])
def test_question_without_hits_gets_beginning_and_spread(
    connection: sqlite3.Connection, question: str
) -> None:
    found = find(connection, [MANUAL], question)
    (excerpt,) = found.excerpts(5)
    total = excerpt.total
    assert excerpt.is_spread
    numbers = [passage.number for passage in excerpt.passages]
    assert numbers == [0, (total - 1) // 4, (total - 1) // 2, (total - 1) * 3 // 4, total - 1]


def test_followup_is_searched_with_the_question_before(connection: sqlite3.Connection) -> None:
    years = "\n\n".join(
        f"# {place} {year}\n\n{place} sold {year} units. {'Other words follow here. ' * 60}"
        for place in ("Berlin", "Madrid", "Oslo")
        for year in (2021, 2022, 2023)
    )
    document = Document("sales.txt", years)
    found = find(connection, [document], "How much did Madrid sell in 2021?", "And in 2023?")
    assert "Madrid sold 2023" in first_text(found)


def test_other_documents_do_not_change_what_is_found(connection: sqlite3.Connection) -> None:
    other = Document("other.txt", "The debugger of another program leaves no trace.\n\n" * 400)
    found = find(connection, [MANUAL, other], "When is __del__ called?")
    assert found.ranked[0][0] == MANUAL.id
    found = find(connection, [MANUAL], "debugger of another program")
    assert {document for document, _ in found.ranked} == {MANUAL.id}


def test_passages_hold_all_text_once() -> None:
    passages = [*passages_of(MANUAL)]
    assert plain(" ".join(p.text for p in passages)) == plain(" ".join(PAGES))
    for passage in passages:
        assert plain(passage.text)[:40] in plain(" ".join(PAGES[passage.page - 1 :]))
    assert max(len(passage.text) for passage in passages) <= 2_500


async def test_damaged_index_is_rebuilt_and_full_disk_bypassed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        migrate(opened)
        find(opened, [MANUAL], "x")
        opened.execute("UPDATE passage_words_data SET block = x'00' WHERE id > 10")
        assert "__del__" in first_text(find(opened, [MANUAL], "When is __del__ called?"))
        opened.execute("PRAGMA query_only = ON")  # writing fails, as on a full disk
        new = Document("n.txt", "A new word: zyzzyva.\n\n" * 100)
        assert "zyzzyva" in first_text(find(opened, [new], "zyzzyva"))


async def test_passages_go_with_messages_drafts_and_conversations(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "c.db")
    file = Attachment("m.txt", MANUAL.text)
    conversation = Conversation("c", [question("What is a list?", [file])])
    (message,) = conversation.messages
    store.save(conversation)
    store.save_messages(conversation, [message])

    async def count() -> int:
        await store.flush()
        with closing(sqlite3.connect(tmp_path / "c.db")) as opened:
            return int(opened.execute("SELECT count(*) FROM passages").fetchone()[0])

    async def search() -> int:
        found = await store.find_passages(
            PassageSearch([Document.of(file)], ["list"], conversation.id)
        )
        return len(found.ranked)

    assert await search()
    assert await count() > 200
    store.delete_messages(conversation, [message])
    assert await count() == 0
    store.save_messages(conversation, [message])  # undone
    assert await search()
    assert await count() > 200
    # It is read whole now.
    await store.find_passages(PassageSearch([], ["list"], conversation.id))
    assert await count() == 0
    assert await search()
    conversation.attachments = (file,)
    store.save(conversation)
    await store.flush()
    conversation.attachments = ()
    store.save(conversation)
    assert await count() == 0, "a draft was removed"
    assert await search()
    store.delete(conversation)
    store.restore(conversation)
    assert await count() > 200
    store.delete(conversation)
    await store.aclose()
    store = await open_store(tmp_path / "c.db")
    assert await count() == 0
    await store.aclose()


def test_vectors_find_passages_without_common_words(connection: sqlite3.Connection) -> None:
    places = ("# Meals\n\nBread and soup.", "# Animals\n\nDogs bark.", "# Stars\n\nMars is red.")
    text = "\n\n".join(f"{place} {'Filler text. ' * 100}" for place in places)
    document = Document("d.txt", text)
    find(connection, [document], "x")
    missing = sorted(passages_without_vector(connection, ("c", ""), "embedder", 99))
    assert len(missing) == 3
    directions = array("f", [1, 0]), array("f", [0, 1]), array("f", [0.6, 0.8])
    vectors = [(n, v.tobytes()) for (n, _), v in zip(missing, directions, strict=True)]
    save_vectors(connection, "embedder", vectors)
    assert not passages_without_vector(connection, ("c", ""), "embedder", 99)
    assert len(passages_without_vector(connection, ("c", ""), "other", 99)) == 3

    def near(model: str, *numbers: float) -> Found:
        vector = QuestionVector(model, array("f", numbers).tobytes())
        return find_passages(
            connection, PassageSearch([document], ["zoology?"], "c", vector=vector)
        )

    assert "Dogs bark" in first_text(near("embedder", 0.1, 0.9))
    assert not near("embedder", 0.1, 0.9).is_spread
    assert near("other", 0.1, 0.9).is_spread
    assert near("embedder", 0.1).is_spread, "of another length, as after a change of the model"
