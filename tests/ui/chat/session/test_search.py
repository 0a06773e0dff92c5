"""The hits of a search are grouped by conversation, can be narrowed, and say when there is more."""

from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.session.search import FoundConversation, MoreHits, Search
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, Placement
from ui.records.messages import ConversationMessage
from ui.records.store import Hit, SearchFilter


def kept(store: MemoryConversationStore, title: str, *texts: str) -> Conversation:
    conversation = Conversation(title, [ConversationMessage("user", text) for text in texts])
    store.save(conversation)
    return conversation


async def looked_for(search: Search, query: str) -> None:
    search.look_for(query)
    await eventually(lambda: not search.is_searching)


async def test_hits_stand_below_their_conversation_and_the_rest_below_a_row(qtbot: QtBot) -> None:
    store = MemoryConversationStore()
    kept(store, "Cats", *(f"a cat {n}" for n in range(7)))
    kept(store, "Dogs", "no cat here")
    search = Search(store)
    ModelTester(None).check(search)
    await looked_for(search, "cat")
    rows = [search.at(row) for row in range(search.rowCount())]
    headings = [row for row in rows if isinstance(row, FoundConversation)]
    assert {(row.title, row.hits, row.named is not None) for row in headings} == {
        ("Cats", 7, True),
        ("Dogs", 1, False),
    }
    (more,) = [row for row in rows if isinstance(row, MoreHits)]
    assert more.label == "4 more results here"
    assert search.summary == "9 results in 2 conversations"
    search.show_more(more)
    assert search.rowCount() == 10
    for row in range(search.rowCount()):
        is_heading = isinstance(search.at(row), FoundConversation)
        can_choose = bool(search.flags(search.index(row)) & Qt.ItemFlag.ItemIsEnabled)
        assert can_choose is (not is_heading or search.hit_at(row) is not None)
    await looked_for(search, "")
    assert search.rowCount() == 0


async def test_a_narrowed_search_asks_anew_and_an_outdated_answer_is_dropped(qtbot: QtBot) -> None:
    store = MemoryConversationStore()
    inside = kept(store, "Inside", "a needle")
    inside.placement = Placement("folder")
    kept(store, "Outside", "a needle")
    search = Search(store)
    await looked_for(search, "needle")
    assert search.summary.startswith("2 results")
    search.narrow(SearchFilter(folder_id="folder", speaker="you"))
    await eventually(lambda: search.summary == "1 result in 1 conversation")
    search.narrow(SearchFilter(folder_id="other"))
    await eventually(lambda: not search.is_searching)
    assert search.summary == ""


async def test_the_keyboard_walks_the_results_shows_more_and_goes_back_to_the_field(
    engine: Engine, theme: Theme, qtbot: QtBot
) -> None:
    async with shown(main_window(engine, theme)) as window:
        conversations = window.workspace.conversations
        for title in ("First", "Second"):
            conversations.add(
                Conversation(title, [ConversationMessage("user", f"needle {n}") for n in range(6)])
            )
        sidebar, results = window.sidebar, window.sidebar.results
        sidebar.search()
        qtbot.keyClicks(sidebar.search_field, "needle")
        await eventually(lambda: results.count.text() == "12 results in 2 conversations")
        qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Down)
        assert results.list.hasFocus()
        assert window.workspace.search.hit_at(results.list.currentIndex().row()) is not None
        for _ in range(3):
            qtbot.keyClick(results.list, Qt.Key.Key_Down)
        assert results.list.currentIndex().data() == "3 more results here"
        qtbot.keyClick(results.list, Qt.Key.Key_Return)
        assert window.workspace.search.rowCount() == 11 + 1
        assert isinstance(window.workspace.search.at(results.list.currentIndex().row()), Hit)
        qtbot.keyClick(results.list, Qt.Key.Key_Escape)
        assert sidebar.search_field.hasFocus()
        assert sidebar.search_field.text() == "needle"
        qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Escape)
        assert sidebar.list.isVisible()
