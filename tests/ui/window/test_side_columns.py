"""The chat between the side columns stays readable; columns give way and come back."""

import asyncio
from pathlib import Path

import pytest
from PySide6.QtWidgets import (
    QScrollArea,
    QWidget,
)

from engine.scheduling.service import Engine
from tests.support.answers.said import finished_run
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.messages.message_foot import ReasonLine
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow, readable_px

WIDTH, HEIGHT = 1280, 900


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        window = main_window(engine, theme)
        window.stop_panel.show()
        window.resize(WIDTH, HEIGHT)
        return window

    return enter(lambda: opened(make(), is_ready=True))


def characters_a_line(window: MainWindow) -> float:
    """How many letters of an ordinary sentence fit into a line of an answer."""
    chat = window.chat
    side = chat.composer.mapTo(chat, chat.composer.rect().topLeft()).x()
    sample = "Most answers are made of sentences such as this one, give or take a word. "
    letter = chat.fontMetrics().horizontalAdvance(sample) / len(sample)
    return (chat.width() - 2 * side) / letter


async def test_the_chat_keeps_a_readable_line(window: MainWindow) -> None:
    for width in (WIDTH, 1_000, 800):
        window.resize(width, HEIGHT)
        await eventually(lambda: characters_a_line(window) >= 42)
        assert window.width() == width
        areas = window.stop_panel.findChildren(QScrollArea)
        await eventually(lambda: all(one.horizontalScrollBar().maximum() == 0 for one in areas))  # noqa: B023


async def test_hidden_columns_return_when_there_is_room(window: MainWindow) -> None:
    window.resize(800, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden() and not window.sidebar.isHidden())
    window.resize(500, HEIGHT)
    await eventually(lambda: window.sidebar.isHidden() and window.stop_panel.isHidden())
    window.resize(WIDTH, HEIGHT)
    await eventually(lambda: not window.sidebar.isHidden() and not window.stop_panel.isHidden())


async def test_a_column_that_is_asked_for_gets_room_from_the_other(window: MainWindow) -> None:
    window.resize(800, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden() and not window.sidebar.isHidden())
    window.stop_panel.toggleViewAction().trigger()
    await eventually(lambda: window.sidebar.isHidden())
    assert window.stop_panel.isVisible()
    window.toggle_sidebar()
    await eventually(lambda: window.stop_panel.isHidden())
    assert window.sidebar.isVisible()


async def test_the_conversations_stay_where_only_one_column_has_room(window: MainWindow) -> None:
    needed = readable_px(window.chat.fontMetrics()) + window.columns.needed_px(window.stop_panel)
    window.resize(needed + 40, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden())
    assert window.sidebar.isVisible()


async def test_a_hidden_column_is_measured_as_wide_as_it_becomes(
    engine: Engine, theme: Theme
) -> None:
    window = main_window(engine, theme)
    window.resize(WIDTH, HEIGHT)
    async with shown(window):
        hidden = window.columns.needed_px(window.stop_panel)
        assert window.stop_panel.isHidden()
        window.stop_panel.show()
        await eventually(window.stop_panel.isVisible)
        assert window.columns.needed_px(window.stop_panel) == hidden


async def test_the_stop_panel_is_closed_until_a_reason_opens_it(
    engine: Engine, theme: Theme, demo_model_path: Path
) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.start(demo_model_path)
        await eventually(lambda: window.workspace.models.stage == "ready")
        assert not window.columns.wants(window.stop_panel)
        assert window.workspace.send("Count from 1 to 3")
        await eventually(lambda: not window.workspace.current.is_running)
        assert window.stop_panel.isHidden()
        (reason,) = window.chat.column.findChildren(ReasonLine)
        assert not reason.isChecked()
        reason.click()
        await eventually(window.stop_panel.isVisible)
        assert reason.isChecked(), "the panel shows this answer"
        window.stop_panel.close()
        assert not reason.isChecked()


async def test_a_column_that_was_closed_stays_closed(window: MainWindow) -> None:
    window.toggle_sidebar()
    window.resize(600, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden())
    window.resize(WIDTH, HEIGHT)
    await eventually(lambda: window.stop_panel.isVisible())
    assert window.sidebar.isHidden()


async def test_a_column_opened_in_a_narrow_window_is_shown(window: MainWindow) -> None:
    window.resize(640, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden())
    window.stop_panel.toggleViewAction().trigger()
    await eventually(lambda: window.stop_panel.isVisible())
    assert window.chat.width() >= 200


@pytest.mark.parametrize("column", ["sidebar", "panel"])
async def test_a_narrow_window_grows_for_a_column_that_is_asked_for(
    window: MainWindow, column: str
) -> None:
    wide = window.screen().availableGeometry().width()
    window.resize(500, HEIGHT)
    await eventually(lambda: window.sidebar.isHidden() and window.stop_panel.isHidden())
    one = window.sidebar if column == "sidebar" else window.stop_panel
    if column == "sidebar":
        window.toggle_sidebar()
    else:
        window.stop_panel.toggleViewAction().trigger()
    await eventually(one.isVisible)
    await eventually(lambda: window.width() > 500)
    assert window.frameGeometry().width() <= wide
    readable = readable_px(window.chat.fontMetrics())
    await eventually(lambda: window.chat.width() >= min(readable, wide - one.width() - 4))
    for part in (one, window.chat.composer.action, window.chat.composer):
        right = part.mapTo(window, part.rect().topRight()).x()
        assert right < window.width()


async def test_a_window_grows_each_time_that_a_column_is_asked_for(window: MainWindow) -> None:
    for _ in range(2):
        window.resize(500, HEIGHT)
        await eventually(lambda: window.width() == 500)
        await eventually(window.sidebar.isHidden)
        window.toggle_sidebar()
        await eventually(lambda: window.sidebar.isVisible() and window.width() > 500)
        window.toggle_sidebar()
        await eventually(window.sidebar.isHidden)


async def test_a_column_stays_where_the_window_may_not_grow(window: MainWindow) -> None:
    window.resize(500, HEIGHT)
    await eventually(lambda: window.stop_panel.isHidden())
    window.stop_panel.toggleViewAction().trigger()
    await eventually(lambda: window.width() > 500)
    window.resize(500, HEIGHT)  # as a window manager that tiles does
    for _ in range(10):
        await asyncio.sleep(0)
    assert window.stop_panel.isVisible()


async def test_a_layout_keeps_the_columns_that_had_no_room(window: MainWindow) -> None:
    window.resize(500, HEIGHT)
    await eventually(lambda: window.sidebar.isHidden() and window.stop_panel.isHidden())
    layout = window.save_layout()
    window.restore_layout(layout)
    window.resize(WIDTH, HEIGHT)
    await eventually(lambda: window.sidebar.isVisible() and window.stop_panel.isVisible())


async def test_the_columns_hold_when_the_window_is_hidden_and_shown(window: MainWindow) -> None:
    window.hide()
    window.show()
    await eventually(lambda: window.sidebar.isVisible() and window.stop_panel.isVisible())


async def test_the_reason_of_an_answer_scrolls_nothing_sideways(window: MainWindow) -> None:
    window.workspace.current.stops.ensure("6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.is_running)
    window.resize(window.width(), window.minimumSizeHint().height())
    window.stop_panel.show()
    areas = window.stop_panel.findChildren(QScrollArea)
    await eventually(lambda: all(one.verticalScrollBar().maximum() > 0 for one in areas))
    await eventually(lambda: all(one.horizontalScrollBar().maximum() == 0 for one in areas))


async def test_other_colors_in_a_small_window_with_large_text_leave_its_columns_alone(
    window: MainWindow,
) -> None:
    theme, gone = window.theme, list[bool]()

    def watch() -> None:
        for line in window.findChildren(QWidget, "qt_qmainwindow_extended_splitter"):
            line.destroyed.connect(lambda *_: gone.append(theme.is_changing))

    turns = [
        (
            ConversationMessage("user", "Count from 1 to 10, one number per line"),
            ConversationMessage("assistant", run=finished_run("1\n2\n3\n4", thinking="")),
        )
        for _ in range(3)
    ]
    window.workspace.take_in(Conversation("Small", [one for turn in turns for one in turn]))
    window.workspace.current.stops.add("6")
    await asyncio.sleep(0.5)
    theme.set_mode("dark")
    await asyncio.sleep(0.3)
    window.resize(760, 620)
    theme.changing.connect(watch)
    for mode in ("dark", "light", "dark", "light", "dark", "light"):
        theme.set_mode(mode)
        await asyncio.sleep(0.1)
    theme.changing.disconnect(watch)
    assert not any(gone)  # else Qt deletes a line between columns while it styles it
