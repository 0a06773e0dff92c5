"""The Edit menu acts on whatever has the keyboard, as on any desktop."""

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QAction, QImage
from PySide6.QtWidgets import QApplication, QMenu

from tests.ui.driving import eventually
from ui.kit.flow_text import FlowText
from ui.kit.menus import copy_text
from ui.window.main_window import MainWindow
from ui.window.other_windows import plain


def entries(window: MainWindow, menu: str) -> dict[str, QAction]:
    """Return the entries of a menu that is about to be shown, by their words."""
    found = next(a.menu() for a in window.menuBar().actions() if plain(a.text()) == menu)
    assert isinstance(found, QMenu)
    found.aboutToShow.emit()
    return {plain(action.text()): action for action in found.actions() if action.text()}


async def test_the_edit_menu_has_what_a_desktop_has(window: MainWindow) -> None:
    edit = entries(window, "Edit")
    assert list(edit)[:11] == [
        "Undo", "Redo", "Cut", "Copy", "Copy Last Answer", "Paste", "Paste and Match Style",
        "Delete", "Select All", "Find", "Search Conversations",
    ]  # fmt: skip


async def test_its_entries_act_on_the_field_that_has_the_keyboard(window: MainWindow) -> None:
    composer = window.chat.composer
    composer.input.insertPlainText("one two")
    edit = entries(window, "Edit")
    assert not edit["Cut"].isEnabled(), "nothing is selected"
    edit["Select All"].trigger()
    edit = entries(window, "Edit")
    assert edit["Copy"].isEnabled()
    edit["Cut"].trigger()
    assert (composer.text, QApplication.clipboard().text()) == ("", "one two")
    entries(window, "Edit")["Undo Typing"].trigger()
    assert composer.text == "one two"
    entries(window, "Edit")["Redo Typing"].trigger()
    assert composer.text == ""
    window.sidebar.search_field.setFocus()
    edit = entries(window, "Edit")
    edit["Paste"].trigger()
    assert window.sidebar.search_field.text() == "one two"
    edit["Select All"].trigger()
    entries(window, "Edit")["Delete"].trigger()
    assert window.sidebar.search_field.text() == ""


async def test_what_is_pasted_without_a_field_is_written_in_the_composer(
    window: MainWindow,
) -> None:
    window.chat.header.stop_panel.setFocus()
    copy_text("pasted")
    entries(window, "Edit")["Paste and Match Style"].trigger()
    assert window.chat.composer.text == "pasted"


async def test_entries_are_enabled_where_there_is_something_to_paste_to_quote_or_to_add(
    window: MainWindow,
) -> None:
    needing = (
        "Paste",
        "Paste and Match Style",
        "Quote Selection",
        "Add Message Without Reply",
    )

    def enabled() -> list[str]:
        found = {**entries(window, "Edit"), **entries(window, "Conversation")}
        return [words for words in needing if found[words].isEnabled()]

    QApplication.clipboard().clear()
    assert enabled() == []
    picture = QMimeData()
    picture.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    QApplication.clipboard().setMimeData(picture)
    assert enabled() == ["Paste"]
    window.sidebar.search_field.setFocus()
    assert enabled() == []
    copy_text("copied")
    window.chat.composer.input.insertPlainText("one two")
    assert enabled() == ["Paste", "Paste and Match Style", "Add Message Without Reply"]
    assert window.chat.handling.changes.add("Say it")
    window.chat.composer.clear()
    view = window.chat.column.views[-1]
    await eventually(lambda: any(one.isVisible() for one in view.findChildren(FlowText)))
    text = next(one for one in view.findChildren(FlowText) if one.isVisible())
    text.selectAll()
    assert enabled() == ["Paste", "Paste and Match Style", "Quote Selection"]
    for menu in window.menuBar().findChildren(QMenu):
        menu.aboutToHide.emit()
    every = {plain(one.text()) for one in window.findChildren(QAction) if one.isEnabled()}
    assert every >= set(needing), "their keys work while the menus are closed"


async def test_view_menu_shows_and_hides_both_side_columns(
    window: MainWindow,
) -> None:
    def offered() -> list[str]:
        return [one for one in entries(window, "View") if one.startswith(("Show ", "Hide "))]

    window.resize(1400, 900)
    assert offered() == ["Hide Sidebar", "Show Stop Panel"]
    entries(window, "View")["Show Stop Panel"].trigger()
    await eventually(lambda: offered() == ["Hide Sidebar", "Hide Stop Panel"])
    window.sidebar.hide()
    assert offered() == ["Show Sidebar", "Hide Stop Panel"]
    entries(window, "View")["Show Sidebar"].trigger()
    assert offered() == ["Hide Sidebar", "Hide Stop Panel"]


async def test_undo_names_the_change_of_the_stop_list_where_no_field_was_written_in(
    window: MainWindow,
) -> None:
    window.workspace.current.stops.ensure("END")
    window.chat.header.stop_panel.setFocus()
    edit = entries(window, "Edit")
    name = next(words for words in edit if words.startswith("Undo "))
    assert name != "Undo Typing"
    edit[name].trigger()
    assert window.workspace.current.stops.entries() == []


async def test_no_two_entries_of_a_menu_are_chosen_by_the_same_letter(window: MainWindow) -> None:
    for menu in (window.menuBar(), *window.menuBar().findChildren(QMenu)):
        if isinstance(menu, QMenu):
            menu.aboutToShow.emit()
        words = [action.text().replace("&&", "") for action in menu.actions()]
        letters = [one.partition("&")[2][:1].casefold() for one in words if "&" in one]
        twice = {one for one in letters if letters.count(one) > 1}
        assert not twice, (words, twice)
