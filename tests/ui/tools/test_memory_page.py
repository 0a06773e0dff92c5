"""The facts in Settings, the card of a kept fact, the Tools tab, and the menu of folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine.values.request import ToolCall
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import DictatedHost
from tests.ui.driving import MODEL, ScriptedEngine
from ui.chat.messages.tool_cards import ToolCards
from ui.chat.tools_page import ToolsPage
from ui.kit.tasks import finish_tasks
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.facts import MAX_FACTS, MEMORY_SERVER, Fact, remembered_text
from ui.records.runs import Run
from ui.records.tool_calls import CallResult
from ui.records.tool_choice import ToolsInUse
from ui.tools.memory import Memory
from ui.tools.memory_page import MemoryPage
from ui.tools.toolbox import Toolbox
from ui.window.main_window import MainWindow


@pytest.fixture
def memory(theme: Theme) -> Memory:
    trip = Conversation("Trip")
    memory = Memory(MemoryConversationStore(), preferences_state(), lambda: (), {trip.id: trip}.get)
    memory.add("The user lives in Berlin.", trip.id)
    memory.add("The user writes Rust.")
    return memory


@pytest.fixture
def page(memory: Memory, qtbot: QtBot) -> MemoryPage:
    page = MemoryPage(memory)
    qtbot.addWidget(page)
    page.resize(680, 500)
    page.show()
    return page


def rows(page: MemoryPage) -> list[str]:
    return [fact.text for fact in page.rows.rows]


def edited(page: MemoryPage, row: int, text: str) -> None:
    """Type another text into a fact's cell."""
    page.table.setCurrentIndex(page.rows.index(row, 2))
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    line = page.table.findChildren(QLineEdit)[-1]
    line.selectAll()
    QTest.keyClicks(line, text)
    QTest.keyClick(line, Qt.Key.Key_Return)
    QCoreApplication.processEvents()  # Qt takes the text once the key is handled


def test_memory_page_lists_the_newest_first(page: MemoryPage) -> None:
    assert rows(page) == ["The user writes Rust.", "The user lives in Berlin."]
    assert page.rows.text(page.rows.rows[1], 1) == "Trip"
    assert page.rows.text(page.rows.rows[0], 1) == ""
    assert page.count.text() == f"2 of {MAX_FACTS} facts"
    page.search.setText("berlin")
    assert rows(page) == ["The user lives in Berlin."]
    assert page.count.text() == "1 of 2 facts found"


def test_memory_page_edits_in_place(page: MemoryPage, memory: Memory) -> None:
    edited(page, 1, "The user lives in Bonn.")
    assert memory.facts[0].text == "The user lives in Bonn."
    page.undo.click()
    assert rows(page)[1] == "The user lives in Berlin."
    edited(page, 1, "x" * 300)
    [box] = page.findChildren(QMessageBox)
    assert box.informativeText().startswith("It has 300 characters; up to 200 are kept.")
    assert rows(page)[1] == "The user lives in Berlin."


def test_memory_page_deletes_with_undo(page: MemoryPage) -> None:
    assert not page.delete.isEnabled()
    page.table.selectRow(0)
    page.delete.click()
    assert rows(page) == ["The user lives in Berlin."]
    assert page.undo.toolTip() == "Undo Delete Fact"
    page.undo.click()
    assert len(rows(page)) == 2
    page.table.setFocus()
    page.table.selectAll()
    QTest.keyClick(page.table, Qt.Key.Key_Delete)
    assert rows(page) == []
    assert page.empty.isVisible()
    assert not page.table.isVisible()


async def test_memory_page_deletes_all_after_a_question(page: MemoryPage) -> None:
    page.delete_all.click()
    [box] = page.findChildren(QMessageBox)
    assert box.text() == "Delete 2 facts?"
    next(button for button in box.buttons() if button.text() == "Delete All").click()
    assert rows(page) == []
    page.undo.click()
    assert len(rows(page)) == 2


@pytest.mark.parametrize("suffix", [".md", ".json"])
async def test_memory_page_exports(page: MemoryPage, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts{suffix}"
    await page._export(path)
    text = path.read_text()
    if suffix == ".json":
        assert [fact["text"] for fact in json.loads(text)["facts"]] == rows(page)[::-1]
    else:
        assert text.startswith("# Kept Facts\n\n- The user lives in Berlin. (")
    await page._export(tmp_path / "no folder" / path.name)
    assert page.findChildren(QMessageBox)
    await finish_tasks(page)


def test_full_memory_is_named(page: MemoryPage, memory: Memory) -> None:
    memory.take_new(Fact(f"Fact {number}") for number in range(MAX_FACTS))
    assert page.count.text() == f"Full: {MAX_FACTS} of {MAX_FACTS} facts"
    assert not page.add.isEnabled()


def test_card_of_a_kept_fact_offers_undo(theme: Theme, qtbot: QtBot, memory: Memory) -> None:
    fact = memory.facts[0]
    run = Run(state="finished", tool_calls=[ToolCall("c1", "remember", '{"fact": "x"}')])
    run.results.append(CallResult("c1", "done", remembered_text(fact), MEMORY_SERVER, "remember"))
    cards = ToolCards()
    qtbot.addWidget(cards)
    cards.forget_requested.connect(lambda fact_id: memory.delete([fact_id]))
    cards.show_run(run)
    cards.show_facts({fact.id})
    card = cards.cards["c1"]
    assert card._title.text() == "Remembered: The user lives in Berlin."
    assert card.undo is not None
    card.undo.click()
    cards.show_facts({one.id for one in memory.facts})
    assert card._title.text() == "Forgotten: The user lives in Berlin."
    assert card.undo.isHidden()
    run.results[0] = CallResult("c1", "done", remembered_text(fact), "other server", "remember")
    others = ToolCards()
    qtbot.addWidget(others)
    others.show_run(run)
    assert others.cards["c1"].undo is None


def test_tools_tab_names_what_the_memory_can_do(theme: Theme, qtbot: QtBot, memory: Memory) -> None:
    toolbox = Toolbox(DictatedHost(), preferences_state())
    toolbox.attach_memory(memory)
    page = ToolsPage(toolbox, page := QWidget())
    qtbot.addWidget(page)
    box = lambda: page.boxes[(MEMORY_SERVER,)]  # noqa: E731 - made anew by each change
    page.show_choice(ToolsInUse(), can_call=True)
    assert (box().isChecked(), box().isEnabled()) == (False, True)
    does = "Keeps facts and searches your conversations."
    assert box().accessibleName() == f"Memory, {does} 2 facts kept."
    box().click()
    assert (MEMORY_SERVER, "search_conversations") in page.boxes
    page.show_choice(page._choice, can_call=False)
    assert box().accessibleName().endswith("Search needs a model that can call tools.")
    page.show_choice(page._choice, can_call=True, folder_without_memory="Private")
    assert not box().isEnabled()
    assert box().accessibleName() == "Memory, Off in the folder “Private”"
    assert (MEMORY_SERVER, "search_conversations") not in page.boxes
    memory.delete([fact.id for fact in memory.facts])
    page.show_choice(page._choice, can_call=True)
    assert box().accessibleName() == f"Memory, {does} No facts kept yet."


async def test_folder_menu_turns_the_memory_off(window: MainWindow) -> None:
    workspace = window.workspace
    folders = workspace.conversations.folders
    folder = folders.create("Private")
    workspace.new_conversation(folder)
    workspace.change_tools(ToolsInUse((MEMORY_SERVER,)))
    workspace.memory.add("A fact")
    current = workspace.current.conversation
    assert workspace.toolbox.facts_for(current) == workspace.memory.facts != ()
    [entry] = [
        each for each in window.sidebar._folder_entries(folder)
        if each is not None and each.label == "Allow &Memory"
    ]  # fmt: skip
    assert entry.checked is True
    entry.run()
    assert folders.get(folder.id).has_memory is False
    assert workspace.toolbox.facts_for(current) == ()
    page = window.chat.tools.page
    assert page.boxes[(MEMORY_SERVER,)].accessibleName() == "Memory, Off in the folder “Private”"
    noted: list[str] = []
    workspace.conversations.undoable.connect(noted.append)
    workspace.conversations.delete_folder(folders.get(folder.id))
    assert noted[-1].endswith("; the memory can search its conversations")


async def test_chip_counts_no_tools_of_a_model_without_calls(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    chip = window.chat.composer.tools
    window.workspace.change_tools(ToolsInUse((MEMORY_SERVER,)))
    assert chip.accessibleName() == "Tools of Fullstop Memory: 3 tools known"
    scripted.model = replace(MODEL, can_call_tools=False)
    window.workspace.model_selection.refresh()
    assert chip.accessibleName() == "Tools: none in this conversation"


async def test_new_chats_use_the_memory_if_wanted(window: MainWindow) -> None:
    workspace = window.workspace
    assert workspace.conversations.new_tools == ToolsInUse()
    window.preferences.change(uses_memory=True)
    assert workspace.conversations.new_tools == ToolsInUse((MEMORY_SERVER,))
    window.preferences.change(uses_memory=False)
    assert workspace.conversations.new_tools == ToolsInUse()
