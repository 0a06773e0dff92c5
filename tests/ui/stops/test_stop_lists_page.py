"""The page of Settings that edits saved stop lists."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QInputDialog, QMessageBox
from pytestqt.qtbot import QtBot

from tests.support.kept import saved_stop_lists
from ui.kit.theme import Theme
from ui.records.stop_entries import StopEntry
from ui.stops.stop_lists import DEFAULT_LIST, StopLists, model_list, named_list
from ui.stops.stop_lists_page import StopListsPage

END = (StopEntry.of("END"),)


@pytest.fixture
def lists() -> StopLists:
    return saved_stop_lists()


@pytest.fixture
def page(lists: StopLists, qtbot: QtBot, theme: Theme) -> StopListsPage:
    made = StopListsPage(lists)
    qtbot.addWidget(made)
    made.show()
    return made


def titles(page: StopListsPage) -> list[str]:
    return [page.choice.itemText(row) for row in range(page.choice.count())]


def answer(page: StopListsPage, name: str) -> None:
    dialog = page.findChildren(QInputDialog)[-1]
    dialog.setTextValue(name)
    dialog.accept()
    dialog.deleteLater()


async def test_edits_of_a_list_are_kept_at_once_and_undone(
    page: StopListsPage, lists: StopLists
) -> None:
    assert titles(page) == ["New Chats"]
    page.editor.input.setText("END")
    page.editor.add_typed()
    assert lists.get(DEFAULT_LIST) == END
    page.editor.menu.aboutToShow.emit()
    page.editor.menu.actions()[0].trigger()
    assert lists.get(DEFAULT_LIST) is None
    page.editor.input.setText("typed")
    page.hide()
    assert lists.get(DEFAULT_LIST) == (StopEntry.of("typed"),)


async def test_lists_are_made_renamed_and_deleted_with_undo(
    page: StopListsPage, lists: StopLists, tmp_path: Path
) -> None:
    lists.keep(model_list(tmp_path), END)
    page.new.click()
    answer(page, "Agents")
    assert titles(page) == ["New Chats", f"New Chats with {tmp_path.name}", "Agents"]
    assert page.key == named_list("Agents")
    page.editor.input.setText("END")
    page.editor.add_typed()
    page.rename.click()
    answer(page, "Tools")
    assert page.key == named_list("Tools")
    assert page.editor.table.model().rowCount() == 1
    page.delete.click()
    assert (page.key, lists.get(named_list("Tools"))) == (DEFAULT_LIST, None)
    assert not page.delete.isEnabled()
    assert page.editor.undo_bar.message.text() == "Deleted the stop list “Tools”"
    page.editor.undo_bar.button.click()
    assert lists.get(named_list("Tools")) == END


async def test_list_of_the_same_name_is_replaced_after_a_question(
    page: StopListsPage, lists: StopLists
) -> None:
    lists.keep(named_list("Own"), END)
    page.new.click()
    answer(page, "Own")
    assert lists.get(named_list("Own")) == END
    (box,) = page.findChildren(QMessageBox)
    next(button for button in box.buttons() if button.text() == "Replace").click()
    assert lists.get(named_list("Own")) == ()


async def test_saved_list_replaces_the_shown_one_or_is_added(
    page: StopListsPage, lists: StopLists
) -> None:
    lists.keep(named_list("Own"), END)
    lists.keep(DEFAULT_LIST, (StopEntry.of("a"),))
    menu = page.editor.menu
    menu.aboutToShow.emit()
    saved = next(entry for entry in menu.actions() if entry.text() == "Saved Lists").menu()
    saved.aboutToShow.emit()
    own = saved.actions()[0].menu()
    replaced, added = own.actions()[:2]
    added.trigger()
    assert lists.get(DEFAULT_LIST) == (StopEntry.of("a"), *END)
    replaced.trigger()
    assert lists.get(DEFAULT_LIST) == END
    page.editor.menu.aboutToShow.emit()
    page.editor.menu.actions()[0].trigger()
    assert lists.get(DEFAULT_LIST) == (StopEntry.of("a"), *END)
