"""What a desktop expects of a window: shortcuts, closing and coming back, its place restored."""

from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QLabel,
    QMenu,
    QStyleOptionMenuItem,
)

from engine.engine import Engine
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.commands import context_menu
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow
from ui.window.other_windows import plain


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    """A window with everything in it."""

    def make() -> MainWindow:
        window = main_window(engine, theme)
        window.start()
        return window

    return enter(lambda: opened(make(), quits=True))


async def test_shortcuts_of_menus_end_at_the_right(window: MainWindow) -> None:
    menu = next(a.menu() for a in window.menuBar().actions() if a.text() == "&Edit")
    widths = []
    for action in menu.actions():
        action.setShortcutVisibleInContextMenu(True)  # the menu bar has not opened it
        option = QStyleOptionMenuItem()
        menu.initStyleOption(option, action)
        if keys := option.text.partition("\t")[2]:
            width = option.fontMetrics.horizontalAdvance(keys)
            widths.append(width)
            assert option.reservedShortcutWidth == width
    assert len(set(widths)) > 1


async def test_context_menus_show_no_shortcuts(window: MainWindow) -> None:
    # The key acts on the open conversation, the menu on the row below the pointer.
    menu = context_menu(
        window, "Menu", window.sidebar.conversation_actions.entries(window.sidebar.chosen)
    )
    option = QStyleOptionMenuItem()
    menu.initStyleOption(option, menu.actions()[0])
    assert option.text == "Re&name"
    menu.close()


async def test_no_two_actions_share_a_shortcut(window: MainWindow) -> None:
    keys = Counter(
        sequence.toString(QKeySequence.SequenceFormat.PortableText)
        for action in window.findChildren(QAction)
        for sequence in action.shortcuts()
    )
    assert {key: count for key, count in keys.items() if count > 1} == {}


async def test_closing_hides_the_window_where_it_goes_on_and_quitting_ends_it(
    window: MainWindow,
) -> None:
    ended: list[int] = []
    window.closed.connect(lambda: ended.append(1))
    window.runs_in_background = lambda: True
    window.close()
    assert (window.isVisible(), ended) == (False, [])
    window.come_forward()
    assert window.isVisible()
    window.close()
    window.quit()
    assert (window.isVisible(), ended) == (False, [1])


async def test_closing_ends_it_where_there_is_nothing_to_go_on_for(window: MainWindow) -> None:
    ended: list[int] = []
    window.closed.connect(lambda: ended.append(1))
    window.close()
    assert ended == [1]


async def test_entries_that_cannot_be_used_are_disabled(
    window: MainWindow, demo_model_path: Path
) -> None:
    def enabled() -> set[str]:
        for menu in window.menuBar().findChildren(QMenu):
            menu.aboutToShow.emit()
        return {plain(a.text()) for a in window.findChildren(QAction) if a.isEnabled()}

    of_answers = {
        "Markdown",
        "Regenerate",
        "Continue Answer",
        "Fork at Token",
        "Earlier Version",
        "Later Version",
        "Stop Generating",
    }
    assert not enabled() & of_answers
    window.start(demo_model_path)
    await eventually(lambda: window.workspace.models.stage == "ready")
    window.workspace.current.stops.add_sequence("6")
    window.workspace.send("Count from 1 to 10, one number per line")
    assert enabled() & of_answers <= {"Stop Generating", "Markdown"}
    session = window.workspace.current
    await eventually(lambda: not session.is_running)
    versions = {"Earlier Version", "Later Version"}
    assert "Continue Past It" in enabled()
    of_answers.remove("Continue Answer")
    assert enabled() & of_answers == of_answers - {"Stop Generating"} - versions
    window.workspace.ask(
        lambda current: current.regenerate(window.workspace.current.conversation.messages[-1])
    )
    await eventually(lambda: not session.is_running)
    assert enabled() & versions == {"Earlier Version"}


async def test_zoom_changes_the_text_of_messages_alone(window: MainWindow) -> None:
    before = {w: w.font().pointSizeF() for w in window.sidebar.findChildren(QLabel)}
    stack = window.chat.column.widget()
    usual = stack.font().pointSizeF()
    (zoom_in,) = (a for a in window.findChildren(QAction) if a.text() == "Zoom &In")
    zoom_in.trigger()
    zoom_in.trigger()
    assert window.preferences.now.text_percent == 125
    assert stack.font().pointSizeF() == pytest.approx(usual * 1.25)
    window.theme.set_mode("dark")
    assert stack.font().pointSizeF() == pytest.approx(usual * 1.25)
    window.theme.set_mode("light")
    assert {w: w.font().pointSizeF() for w in before} == before
    for _ in range(20):
        window.preferences.resize_text(-1)
    assert window.preferences.now.text_percent == 70
    window.preferences.resize_text(0)
    assert stack.font().pointSizeF() == pytest.approx(usual)


async def test_the_appearance_menu_and_the_preferences_agree(window: MainWindow) -> None:
    (dark,) = (a for a in window.findChildren(QAction) if a.text() == "Dark")
    dark.trigger()
    assert window.preferences.now.theme == "dark"
    assert window.theme.colors.is_dark
    window.preferences.change(theme="light")
    menu = dark.parent()
    assert isinstance(menu, QMenu)
    menu.aboutToShow.emit()
    assert not dark.isChecked()
