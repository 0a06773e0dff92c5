"""The Edit menu acts on whatever has the keyboard, as on any desktop."""

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu

from tests.ui.driving import eventually
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.window.main_window import MainWindow
from ui.window.other_windows import plain


def entries(window: MainWindow, menu: str) -> dict[str, QAction]:
    """Return the entries of a menu that is about to be shown, by their words."""
    found = next(a.menu() for a in window.menuBar().actions() if plain(a.text()) == menu)
    assert isinstance(found, QMenu)
    found.aboutToShow.emit()
    return {plain(action.text()): action for action in found.actions() if action.text()}


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


async def test_the_last_answer_is_copied_if_it_has_text(window: MainWindow) -> None:
    conversation = window.workspace.current.conversation
    conversation.add(ConversationMessage("user", "Hi"))
    answer = ConversationMessage("assistant", "", Run(state="refused"))
    conversation.add(answer)
    assert not entries(window, "Edit")["Copy Last Answer"].isEnabled()
    answer.run = Run(state="written", text="Hello")
    entries(window, "Edit")["Copy Last Answer"].trigger()
    assert QApplication.clipboard().text() == "Hello"


async def test_view_menu_shows_and_hides_both_side_columns(
    window: MainWindow,
) -> None:
    def offered() -> list[str]:
        return [one for one in entries(window, "View") if one.endswith(("Sidebar", "Pane"))]

    window.resize(1400, 900)
    assert offered() == ["Hide Sidebar", "Show Right Pane"]
    entries(window, "View")["Show Right Pane"].trigger()
    await eventually(lambda: offered() == ["Hide Sidebar", "Hide Right Pane"])
    window.sidebar.hide()
    assert offered() == ["Show Sidebar", "Hide Right Pane"]
    entries(window, "View")["Show Sidebar"].trigger()
    assert offered() == ["Hide Sidebar", "Hide Right Pane"]


async def test_no_two_entries_of_a_menu_are_chosen_by_the_same_letter(window: MainWindow) -> None:
    for menu in (window.menuBar(), *window.menuBar().findChildren(QMenu)):
        if isinstance(menu, QMenu):
            menu.aboutToShow.emit()
        words = [action.text().replace("&&", "") for action in menu.actions()]
        letters = [one.partition("&")[2][:1].casefold() for one in words if "&" in one]
        twice = {one for one in letters if letters.count(one) > 1}
        assert not twice, (words, twice)
