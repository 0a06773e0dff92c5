"""The hits of a search are grouped by conversation, can be narrowed, and say when there is more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QListView
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from app.store.conversation_store import SqliteConversationStore, open_store
from engine.engine import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living, eventually
from ui.chat.search_box import _ResultDelegate
from ui.chat.session.search import FoundConversation, MoreHits, Search
from ui.kit.rows import RowPart
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, Placement
from ui.records.messages import ConversationMessage
from ui.records.store import Hit, SearchFilter


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteConversationStore]:
    store = await open_store(path)
    yield store
    await store.aclose()


@pytest.fixture
def store(enter: Enter, tmp_path: Path) -> Living[SqliteConversationStore]:
    return enter(lambda: opened(tmp_path / "conversations.db"))


def save(store: SqliteConversationStore, title: str, *texts: str, folder: str = "") -> None:
    conversation = Conversation(title, [ConversationMessage("user", text) for text in texts])
    conversation.placement = Placement(folder)
    store.save(conversation)
    store.save_messages(conversation, conversation.messages)


async def looked_for(search: Search, query: str) -> None:
    search.look_for(query)
    await eventually(lambda: not search.is_searching)


async def test_hits_of_a_conversation_are_in_reading_order(
    store: SqliteConversationStore, qtbot: QtBot
) -> None:
    texts = ("long words before the one cat that is here", "cat cat cat", "a cat")
    messages = [ConversationMessage("user", text) for text in texts]
    for number, message in enumerate(messages):
        message.created_at = 1e9 + number
    conversation = Conversation("Pets", messages)
    store.save(conversation)
    store.save_messages(conversation, messages)
    search = Search(store)
    await looked_for(search, "cat")
    rows = [search.at(row) for row in range(search.rowCount())]
    hits = [row for row in rows if isinstance(row, Hit)]
    assert [hit.message_id for hit in hits] == [message.id for message in messages]


def test_match_near_the_beginning_keeps_its_words(theme: Theme, qtbot: QtBot) -> None:
    view = QListView()
    qtbot.addWidget(view)
    view.viewport().resize(200, 200)
    text = "A token is a piece of text, from one character to a whole word, that a model reads"
    shown_part = _ResultDelegate(view)._fitting(
        Hit("c", "m", "Tokens", "assistant", 0.0, text, ((2, 5),))
    )
    assert shown_part.text.startswith("A token is")
    assert list(shown_part.bold) == [(2, 5)]


@pytest.mark.parametrize("before", ["many words before it and then the ", "x" * 90])
def test_match_far_in_a_snippet_stays_in_its_line(theme: Theme, qtbot: QtBot, before: str) -> None:
    view = QListView()
    qtbot.addWidget(view)
    view.viewport().resize(200, 200)
    hit = Hit("c", "m", "Tokens", "user", 0.0, f"{before}token here", ((len(before), 5),))
    shown_part = _ResultDelegate(view)._fitting(hit, 10, "You")
    ((begin, length),) = shown_part.bold
    assert shown_part.text[begin : begin + length] == "token"
    assert view.fontMetrics().horizontalAdvance(shown_part.text[: begin + length]) < 160


def test_cut_snippet_has_nothing_behind_its_ellipsis(theme: Theme, qtbot: QtBot) -> None:
    view = QListView()
    qtbot.addWidget(view)
    text, painter = "a budget, please, and so on; the cost!", MagicMock()
    part = RowPart(text, bold=((2, 6), (33, 4)))
    room_px = view.fontMetrics().horizontalAdvance(text)
    for width in range(room_px // 2, room_px):
        painter.reset_mock()
        _ResultDelegate(view)._draw(painter, QRect(0, 0, width, 20), part, view.font(), "black")
        *before, _ = [call.args[2] for call in painter.drawText.call_args_list]
        assert not any(shown.endswith("…") for shown in before)


async def test_hits_stand_below_their_conversation_and_the_rest_below_a_row(
    store: SqliteConversationStore, qtbot: QtBot
) -> None:
    save(store, "Cats", *(f"a cat {n}" for n in range(7)))
    save(store, "Dogs", "no cat here")
    search = Search(store)
    ModelTester(None).check(search)
    await looked_for(search, "cat")
    rows = [search.at(row) for row in range(search.rowCount())]
    headings = [row for row in rows if isinstance(row, FoundConversation)]
    assert {(row.title, row.hits, row.hit is not None) for row in headings} == {
        ("Cats", 7, True),
        ("Dogs", 1, True),
    }
    (more,) = [row for row in rows if isinstance(row, MoreHits)]
    assert more.label == "5 more"
    assert search.summary == "8 results in 2 conversations"
    search.show_more(more)
    assert search.rowCount() == 9
    for row in range(search.rowCount()):
        is_heading = isinstance(search.at(row), FoundConversation)
        can_choose = bool(search.flags(search.index(row)) & Qt.ItemFlag.ItemIsEnabled)
        assert can_choose is (not is_heading or search.hit_at(row) is not None)
    await looked_for(search, "")
    assert search.rowCount() == 0


async def test_a_narrowed_search_asks_anew_and_an_outdated_answer_is_dropped(
    store: SqliteConversationStore, qtbot: QtBot
) -> None:
    save(store, "Inside", "a needle", folder="folder")
    save(store, "Outside", "a needle")
    archived = Conversation("Archived", [ConversationMessage("user", "a [needle](x) in **hay**")])
    archived.placement = Placement(is_archived=True)
    store.save(archived)
    store.save_messages(archived, archived.messages)
    search = Search(store)
    await looked_for(search, "needle")
    assert search.summary.startswith("3 results")
    search.narrow(SearchFilter(in_archive=True))
    await eventually(lambda: search.summary == "1 result in 1 conversation")
    hit = search.hit_at(search.first_hit())
    assert hit is not None
    assert (hit.title, hit.snippet) == ("Archived", "a needle in hay")
    search.narrow(SearchFilter(folder_id="folder", speaker="you"))
    await eventually(lambda: search.summary == "1 result in 1 conversation")
    search.narrow(SearchFilter(folder_id="other"))
    await eventually(lambda: not search.is_searching)
    assert search.summary == ""


async def test_the_keyboard_walks_the_results_shows_more_and_goes_back_to_the_field(
    engine: Engine, theme: Theme, store: SqliteConversationStore, qtbot: QtBot
) -> None:
    async with shown(main_window(engine, theme, store=store)) as window:
        conversations = window.workspace.conversations
        for title in ("First", "Second"):
            texts = [ConversationMessage("user", f"needle {n}") for n in range(6)]
            conversations.add(conversation := Conversation(title, texts))
            store.save_messages(conversation, conversation.messages)
        sidebar, results = window.sidebar, window.sidebar.results
        sidebar.search()
        qtbot.keyClicks(sidebar.search_field, "needle")
        found = "12 results in 2 conversations\nBest matches first"
        await eventually(lambda: results.count.text() == found)
        qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Down)
        assert results.list.hasFocus()
        assert window.workspace.search.hit_at(results.list.currentIndex().row()) is not None
        for _ in range(2):
            qtbot.keyClick(results.list, Qt.Key.Key_Down)
        assert results.list.currentIndex().data() == "4 more"
        qtbot.keyClick(results.list, Qt.Key.Key_Return)
        assert window.workspace.search.rowCount() == 10 + 1
        assert isinstance(window.workspace.search.at(results.list.currentIndex().row()), Hit)
        qtbot.keyClick(results.list, Qt.Key.Key_Escape)
        assert sidebar.search_field.hasFocus()
        assert sidebar.search_field.text() == "needle"
        qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Escape)
        assert sidebar.list.isVisible()
