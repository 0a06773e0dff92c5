"""The Edit menu acts on whatever has the keyboard, as on any desktop."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu

from tests.support.shown import Use, main_window, shown
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_text
from ui.window.main_window import MainWindow
from ui.window.shortcuts import plain


@pytest.fixture
def use(run: RunOnLoop, scripted: ScriptedEngine, theme: Theme) -> Use:
    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with shown(main_window(scripted, theme), quits=True) as window:  # type: ignore[arg-type]
                window.activateWindow()
                await eventually(window.isActiveWindow)
                await steps(window)

        run(whole())

    return use_window


def entries(window: MainWindow, menu: str) -> dict[str, QAction]:
    """Return the entries of a menu that is about to be shown, by their words."""
    found = next(a.menu() for a in window.menuBar().actions() if plain(a.text()) == menu)
    assert isinstance(found, QMenu)
    found.aboutToShow.emit()
    return {plain(action.text()): action for action in found.actions() if action.text()}


def test_the_edit_menu_has_what_a_desktop_has(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        edit = entries(window, "Edit")
        assert list(edit)[:10] == [
            "Undo", "Redo", "Cut", "Copy", "Paste", "Paste and Match Style", "Delete",
            "Select All", "Find", "Search Conversations",
        ]  # fmt: skip

    use(steps)


def test_its_entries_act_on_the_field_that_has_the_keyboard(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
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

    use(steps)


def test_what_is_pasted_without_a_field_is_written_in_the_composer(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.chat.header.stop_panel.setFocus()
        copy_text("pasted")
        entries(window, "Edit")["Paste and Match Style"].trigger()
        assert window.chat.composer.text == "pasted"

    use(steps)


def test_undo_names_the_change_of_the_stop_list_where_no_field_was_written_in(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.workspace.current.stops.ensure("END")
        window.chat.header.stop_panel.setFocus()
        edit = entries(window, "Edit")
        name = next(words for words in edit if words.startswith("Undo "))
        assert name != "Undo Typing"
        edit[name].trigger()
        assert window.workspace.current.stops.entries() == []

    use(steps)
