"""The sidebar and the stop panel beside the chat, and the layout that the next start restores."""

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel

from engine.engine import Engine
from tests.support.answers.said import finished_run
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme), quits=True))


def is_mapped(window: MainWindow) -> bool:
    return window.testAttribute(Qt.WidgetAttribute.WA_Mapped)


def columns(window: MainWindow) -> list[bool]:
    return [window.sidebar.isVisible(), window.pane.isVisible()]


async def test_sidebar_gives_way_to_the_right_pane_in_a_narrow_window(window: MainWindow) -> None:
    window.resize(740, 700)
    window.pane.open(window.stop_panel)
    assert columns(window) == [False, True]
    await eventually(lambda: window.chat.width() >= 415)
    window.resize(750, 700)
    assert columns(window) == [False, True]
    window.sidebar.toggle()
    assert columns(window) == [True, False]
    window.pane.open(window.stop_panel)
    window.pane.leave()
    await eventually(lambda: window.sidebar.width() == 240)
    assert window.width() == 750


@pytest.mark.parametrize("width", [640, 740])
async def test_narrow_window_with_the_pane_is_as_narrow_at_the_next_start(
    window: MainWindow, engine: Engine, theme: Theme, width: int
) -> None:
    window.resize(width, 700)
    window.pane.open(window.stop_panel)
    await eventually(window.sidebar.isHidden)
    layout = window.save_layout()
    other = main_window(engine, theme)
    other.restore_layout(layout)
    async with shown(other, quits=True):
        assert other.width() == width
        assert other.pane.isVisible()
        assert other.sidebar.isHidden()
        other.pane.hide()
        await eventually(lambda: other.sidebar.isVisible() is (width > 660))
        assert other.width() == width


async def test_hidden_sidebar_leaves_new_chat_in_the_header(window: MainWindow) -> None:
    new = window.chat.header.new
    assert new.isHidden()
    window.sidebar.toggle()
    assert new.isVisible()
    before = window.workspace.current.conversation
    before.draft = "kept"
    new.click()
    assert window.workspace.current.conversation is not before
    window.sidebar.toggle()
    assert new.isHidden()


async def test_keyboard_goes_back_to_the_message_when_the_pane_is_hidden(
    window: MainWindow,
) -> None:
    await eventually(window.isActiveWindow)
    window.pane.toggle(window.chat.settings)
    assert window.focusWidget() is window.chat.settings.system_prompt
    window.pane.toggleViewAction().trigger()
    assert window.focusWidget() is window.chat.composer.input


async def test_narrow_window_hides_the_right_pane_and_then_the_sidebar(window: MainWindow) -> None:
    window.resize(1100, 700)
    window.pane.open(window.stop_panel)
    await eventually(lambda: window.width() == 1100 and window.pane.width() == 320)
    window.resize(970, 700)
    assert columns(window) == [True, False]
    window.resize(100, 700)
    assert columns(window) == [False, False]
    await eventually(lambda: window.width() == window.chat.width() == 630)
    window.resize(660, 700)
    assert columns(window) == [True, False]
    window.resize(1100, 700)
    assert columns(window) == [True, True]
    await eventually(lambda: window._splitter.sizes()[0] == 240)


async def test_columns_that_were_closed_stay_closed_in_a_wide_window(window: MainWindow) -> None:
    window.resize(1100, 700)
    window.pane.open(window.stop_panel)
    window.sidebar.hide()
    window.resize(630, 700)
    assert columns(window) == [False, False]
    window.pane.open(window.chat.settings)
    await eventually(lambda: window.chat.width() + window.pane.width() <= 630 == window.width())
    window.pane.leave()
    window.resize(1100, 700)
    assert columns(window) == [False, False]


async def test_detached_pane_takes_no_room(window: MainWindow) -> None:
    window.resize(740, 700)
    window.pane.open(window.stop_panel)
    window.pane.setFloating(True)
    await eventually(lambda: columns(window) == [True, True])
    window.resize(670, 700)
    assert columns(window) == [True, True]
    window.pane.setFloating(False)
    await eventually(lambda: columns(window) == [False, True])


async def test_main_window_fits_its_screen(window: MainWindow) -> None:
    offered = window.screen().availableSize()
    assert window.width() <= offered.width()
    assert window.height() <= offered.height()


async def test_side_columns_are_restored_with_their_widths(
    window: MainWindow, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    window.resize(780, 560)
    window._splitter.set_first(310)
    layout = window.save_layout()
    async with shown(main_window(engine, theme), quits=True) as other:
        other.restore_layout(layout)
        assert other._splitter.sizes()[0] == pytest.approx(310, abs=20)
        other.sidebar.hide()
        other.pane.open(other.chat.settings)
        layout = other.save_layout()
        other.pane.open(other.stop_panel)
        other.restore_layout(layout)
        assert other.sidebar.isHidden()
        assert other.pane.page is other.chat.settings
        other.restore_layout(b"from another version")
        assert other.sidebar.isHidden()
        other.resize(740, 560)
        other.sidebar.show()
        assert columns(other) == [True, False]
        sidebar_last = other.save_layout()
        other.pane.open(other.stop_panel)
        pane_last = other.save_layout()
        other.restore_layout(sidebar_last)
        assert columns(other) == [True, False]
        other.restore_layout(pane_last)
        assert columns(other) == [False, True]
        other.pane.hide()
        assert columns(other) == [True, False]


async def test_restored_sidebar_gives_way_on_a_smaller_screen(
    window: MainWindow, engine: Engine, theme: Theme
) -> None:
    window.pane.open(window.stop_panel)
    layout = window.save_layout()
    other = main_window(engine, theme)
    other.resize(820, 600)  # what a new window has on such a screen
    other.restore_layout(layout)
    async with shown(other, quits=True):
        assert other.sidebar.isHidden()
        assert other.pane.isVisible()
        assert other.minimumSizeHint().width() <= 820


async def test_column_and_chat_move_with_one_value(window: MainWindow) -> None:
    window.resize(1600, 900)
    area, pane, motion = window._splitter, window.pane, window._motion
    await eventually(lambda: area.width() == 1600 and is_mapped(window))

    def left_px() -> int:
        return window.chat.composer.mapTo(window, QPoint()).x()

    for change in (window.chat.header.pane.click, pane.leave, window.sidebar.toggle):
        before_px, gaps = left_px(), set[int]()
        change()
        assert left_px() == before_px, "the movement begins where the column was"
        while motion.state() is motion.State.Running:
            column = pane if pane.isVisible() else window.findChild(QLabel, "passing_column")
            if column is not None and column.x() > 800:
                gaps.add(column.x() - area.geometry().right())
            await asyncio.sleep(0.01)
        assert gaps <= {2}, "the pane and the chat touch"
        left = window.chat.composer.mapTo(window.chat, QPoint()).x()
        assert abs(window.chat.width() - window.chat.composer.width() - 2 * left) <= 1
        assert abs(left_px() - before_px) >= 100
    assert window.findChild(QLabel, "passing_column") is None
    assert area.geometry().left() == 0


async def test_column_that_is_resized_while_it_moves_is_in_its_place(window: MainWindow) -> None:
    window.resize(1600, 900)
    window.pane.open(window.stop_panel)
    window.resize(1500, 900)
    assert window._motion.state() is window._motion.State.Stopped
    await eventually(lambda: window.pane.geometry().right() == 1499)
    assert window._splitter.width() == 1500 - 320 - 1


async def test_composer_is_as_wide_as_narrow_column(window: MainWindow) -> None:
    for width in (700, 780, 864):
        window.resize(width, 700)
        await eventually(lambda: window.chat.composer.width() == window.chat.width() - 52)
        assert window.chat.composer.mapTo(window.chat, QPoint()).x() == 26


async def test_composer_fills_a_chat_that_lost_both_columns(window: MainWindow) -> None:
    chat, workspace = window.chat, window.workspace
    text = "More words follow. " * 60
    answer = ConversationMessage("assistant", text, finished_run(text))
    workspace.open(Conversation("Long", [ConversationMessage("user", "Why?"), answer]))
    window.resize(1600, 900)
    window.pane.open(window.stop_panel)
    await eventually(lambda: window._motion.state() is window._motion.State.Stopped)
    assert columns(window) == [True, True]
    await asyncio.sleep(0.5)
    window.windowHandle().resize(640, 600)
    await eventually(lambda: chat.width() == 640)
    assert columns(window) == [False, False]
    await asyncio.sleep(0.3)
    assert chat.composer.width() == 640 - 52


async def test_two_columns_that_change_places_move_together(window: MainWindow) -> None:
    window.resize(740, 700)
    motion, chat = window._motion, window.chat
    await eventually(lambda: chat.width() == 740 - 241 and is_mapped(window))

    def place() -> tuple[int, int]:
        return chat.mapTo(window, QPoint()).x(), chat.width()

    for change, end in (
        (lambda: window.pane.open(window.stop_panel), (0, 740 - 321)),
        (window.sidebar.toggle, (241, 499)),
    ):
        before = place()
        change()
        assert place() == before, "the movement begins where the chat was"
        await eventually(lambda: motion.state() is motion.State.Stopped)
        assert place() == end
    assert columns(window) == [True, False]


async def test_columns_do_not_move_while_the_window_opens(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme), quits=True) as window:
        assert window._motion.state() is window._motion.State.Stopped


async def test_columns_do_not_move_where_motion_is_reduced(window: MainWindow) -> None:
    window.preferences.change(reduces_motion=True)
    window.pane.open(window.stop_panel)
    window.sidebar.toggle()
    assert window._motion.state() is window._motion.State.Stopped
    assert window.findChild(QLabel, "passing_column") is None
