"""What stands beside text grows with it, and the chat between the columns stays readable."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QScrollArea,
    QStyle,
    QStyleOptionButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from engine.scheduling.service import Engine
from tests.support.shown import SilentServer, Use, main_window, shown
from tests.ui.driving import RunOnLoop, eventually
from ui.chat.composing.composer import Composer
from ui.chat.composing.context_meter import Count
from ui.chat.messages.reason_line import ReasonLine
from ui.kit.controls.buttons import ChipButton, IconBadge, IconButton, ToggleSwitch
from ui.kit.controls.check_box import CheckBox
from ui.kit.controls.clear_button import add_clear_button, add_leading_icon
from ui.kit.look import sizes
from ui.kit.look.stylesheet import stylesheet
from ui.kit.look.theme import Theme, restyle
from ui.kit.text.labels import label
from ui.kit.text.pill import StatusPill
from ui.server.request_log import RequestLogPanel
from ui.server.requests import RequestLog
from ui.window.main_window import MainWindow
from ui.window.side_columns import readable_px
from ui.words.tones import Tone

SIZES = (100, 150, 200)
WIDTH, HEIGHT = 1280, 900


@pytest.fixture
def sized(theme: Theme) -> Any:
    """The theme; its text is as usual afterwards."""
    yield theme
    theme.set_text_size(100)


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, sized: Theme, qapp: QApplication) -> Use:
    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            window = main_window(engine, sized, server=SilentServer())
            window.resize(WIDTH, HEIGHT)
            async with shown(window):
                await eventually(lambda: window.workspace.model.stage == "ready")
                await steps(window)

        run(whole())

    return use_window


def controls(theme: Theme) -> dict[str, QWidget]:
    pill, reason = StatusPill(theme, "State"), ReasonLine(theme)
    pill.show_state("Ready", "check", Tone.DONE)
    reason.show_reason(["12 tokens"], "Stopped", "check", Tone.DONE)
    return {
        "icon button": IconButton(theme, "plus", "Add"),
        "chip": ChipButton(theme, "sliders", "Settings"),
        "badge": IconBadge(theme, 36),
        "switch": ToggleSwitch(theme, "Server"),
        "box": CheckBox(theme, "On"),
        "pill": pill,
        "reason": reason,
    }


@pytest.mark.parametrize("order", ["made before", "made after"])
def test_controls_are_twice_as_large_with_text_of_twice_the_size(
    sized: Theme, qapp: QApplication, order: str
) -> None:
    usual = {name: one.sizeHint() for name, one in controls(sized).items()}
    found = controls(sized)
    sized.set_text_size(200)
    if order == "made after":
        found = controls(sized)
    for name, one in found.items():
        height = one.sizeHint().height()
        assert height >= usual[name].height() * 1.5, name
        assert height >= QFontMetrics(one.font()).height(), name


@pytest.mark.parametrize("percent", SIZES)
def test_icons_keep_their_proportion_to_the_letters(sized: Theme, percent: int) -> None:
    button, chip = IconButton(sized, "plus", "Add"), ChipButton(sized, "sliders", "Settings")
    ratios = {one.iconSize().height() / one.fontMetrics().height() for one in (button, chip)}
    sized.set_text_size(percent)
    now = {one.iconSize().height() / one.fontMetrics().height() for one in (button, chip)}
    assert min(now) == pytest.approx(min(ratios), rel=0.15)


def test_icons_in_a_field_grow_with_its_text_and_leave_it_room(sized: Theme, qtbot: QtBot) -> None:
    field = QLineEdit("words")
    qtbot.addWidget(field)
    glass, clear = add_leading_icon(sized, field, "search"), add_clear_button(sized, field, "Clear")
    field.show()
    usual = glass.height(), clear.iconSize().height()
    sized.set_text_size(200)
    field.resize(400, field.sizeHint().height())
    assert (glass.height(), clear.iconSize().height()) == (2 * usual[0], 2 * usual[1])
    assert field.rect().contains(glass.geometry())
    assert field.rect().contains(clear.geometry())
    assert field.textMargins().left() >= usual[0]


@pytest.mark.parametrize("percent", SIZES)
def test_boxes_keep_their_proportion_to_the_letters(sized: Theme, percent: int) -> None:
    box = CheckBox(sized, "On")
    box.show()
    sized.set_text_size(percent)
    option = QStyleOptionButton()
    box.initStyleOption(option)
    side = box.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, box).height()
    assert side >= 0.75 * QFontMetrics(box.font()).height()
    box.close()


def test_the_style_sheet_grows_all_but_hairlines(sized: Theme) -> None:
    usual, large = stylesheet(sized.colors), stylesheet(sized.colors, 200)
    assert "width: 15px; height: 15px" in usual
    assert "width:" in large
    assert "30px" in large
    assert "1px solid" in large
    assert large.count("{") == usual.count("{")
    assert large.count(";") == usual.count(";")


def test_no_text_is_so_small_that_controls_become_tiny() -> None:
    assert sizes.of_glyphs(70) >= 0.9


def test_a_field_keeps_its_size_when_it_is_marked_as_wrong(
    sized: Theme, qapp: QApplication
) -> None:
    field = QLineEdit()
    font = field.font()
    font.setPointSizeF(font.pointSizeF() * 1.2)
    field.setFont(font)
    usual = field.font().pointSizeF()
    field.show()
    sized.set_text_size(200)
    restyle(field, "invalid", True)
    assert field.font().pointSizeF() == pytest.approx(2 * usual)
    restyle(field, "invalid", False)
    sized.set_text_size(100)
    assert field.font().pointSizeF() == pytest.approx(usual)
    field.close()


def test_what_was_made_with_large_text_is_usual_when_the_text_is(
    sized: Theme, qapp: QApplication
) -> None:
    sized.set_text_size(200)
    made = label("Words", "muted", 0.9)
    made.show()
    large = made.font().pointSizeF()
    sized.set_text_size(100)
    sized.set_mode("dark")
    sized.set_mode("light")
    assert made.font().pointSizeF() == pytest.approx(large / 2)
    sized.set_text_size(200)
    assert made.font().pointSizeF() == pytest.approx(large)
    made.close()


def characters_a_line(window: MainWindow) -> float:
    """How many letters of an ordinary sentence fit into a line of an answer."""
    chat = window.chat
    side = chat.composer.mapTo(chat, chat.composer.rect().topLeft()).x()
    sample = "Most answers are made of sentences such as this one, give or take a word. "
    letter = chat.fontMetrics().horizontalAdvance(sample) / len(sample)
    return (chat.width() - 2 * side) / letter


@pytest.mark.parametrize("percent", SIZES)
def test_the_chat_keeps_a_readable_line(use: Use, percent: int) -> None:
    async def steps(window: MainWindow) -> None:
        window.preferences.change(text_percent=percent)
        await eventually(lambda: characters_a_line(window) >= 42)
        assert window.width() == WIDTH
        assert not (window.sidebar.isHidden() and window.stop_panel.isHidden())
        areas = window.stop_panel.findChildren(QScrollArea)
        await eventually(lambda: all(one.horizontalScrollBar().maximum() == 0 for one in areas))

    use(steps)


@pytest.mark.parametrize("percent", SIZES)
def test_the_reason_of_an_answer_scrolls_nothing_sideways(use: Use, percent: int) -> None:
    async def steps(window: MainWindow) -> None:
        window.preferences.change(text_percent=percent)
        window.workspace.current.stops.ensure("6")
        window.workspace.send("Count from 1 to 10, one number per line")
        await eventually(lambda: not window.workspace.current.session.is_running)
        window.stop_panel.show()
        areas = window.stop_panel.findChildren(QScrollArea)
        await eventually(lambda: all(one.verticalScrollBar().maximum() > 0 for one in areas))
        await eventually(lambda: all(one.horizontalScrollBar().maximum() == 0 for one in areas))

    use(steps)


def test_columns_that_gave_way_come_back(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.preferences.change(text_percent=200)
        await eventually(lambda: window.sidebar.isHidden())
        window.preferences.change(text_percent=100)
        await eventually(lambda: not window.sidebar.isHidden())
        window.resize(500, HEIGHT)
        await eventually(lambda: window.sidebar.isHidden() and window.stop_panel.isHidden())
        window.resize(WIDTH, HEIGHT)
        await eventually(lambda: not window.sidebar.isHidden() and not window.stop_panel.isHidden())

    use(steps)


def test_a_column_that_is_asked_for_gets_room_from_the_other(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.preferences.change(text_percent=200)
        await eventually(lambda: window.sidebar.isHidden() and not window.stop_panel.isHidden())
        window.toggle_sidebar()
        await eventually(lambda: window.stop_panel.isHidden())
        assert window.sidebar.isVisible()
        window.stop_panel.toggleViewAction().trigger()
        await eventually(lambda: window.sidebar.isHidden())
        assert window.stop_panel.isVisible()

    use(steps)


def test_a_column_that_was_closed_stays_closed(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.toggle_sidebar()
        window.resize(600, HEIGHT)
        await eventually(lambda: window.stop_panel.isHidden())
        window.resize(WIDTH, HEIGHT)
        await eventually(lambda: window.stop_panel.isVisible())
        assert window.sidebar.isHidden()

    use(steps)


def test_a_column_asked_for_in_a_narrow_window_is_shown_all_the_same(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.resize(640, HEIGHT)
        await eventually(lambda: window.stop_panel.isHidden())
        window.stop_panel.toggleViewAction().trigger()
        await eventually(lambda: window.stop_panel.isVisible())
        assert window.chat.width() >= 200

    use(steps)


@pytest.mark.parametrize("column", ["sidebar", "panel"])
def test_a_narrow_window_grows_for_a_column_that_is_asked_for(use: Use, column: str) -> None:
    async def steps(window: MainWindow) -> None:
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

    use(steps)


def test_a_window_grows_each_time_that_a_column_is_asked_for(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        for _ in range(2):
            window.resize(500, HEIGHT)
            await eventually(lambda: window.width() == 500)
            await eventually(window.sidebar.isHidden)
            window.toggle_sidebar()
            await eventually(lambda: window.sidebar.isVisible() and window.width() > 500)
            window.toggle_sidebar()
            await eventually(window.sidebar.isHidden)

    use(steps)


def test_a_column_stays_where_the_window_may_not_grow(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.resize(500, HEIGHT)
        await eventually(lambda: window.stop_panel.isHidden())
        window.stop_panel.toggleViewAction().trigger()
        await eventually(lambda: window.width() > 500)
        window.resize(500, HEIGHT)  # as a window manager that tiles does
        for _ in range(10):
            await asyncio.sleep(0)
        assert window.stop_panel.isVisible()

    use(steps)


def test_the_row_below_the_text_fits_a_narrow_composer(sized: Theme, qtbot: QtBot) -> None:
    chat, composer = QWidget(), Composer(sized)
    qtbot.addWidget(chat)
    composer.setParent(chat)
    composer.show_stage(True, False, "Message")
    composer.show_thinking(True, False)
    sized.set_text_size(200)
    composer.show_count(Count(3, 30, 4_000))
    chat.show()
    for width in (900, 500, 330):
        composer.setGeometry(0, 0, width, 200)
        QApplication.processEvents()
        end = composer.action.mapTo(composer, composer.action.rect().topRight()).x()
        assert end < width, width


def test_a_layout_keeps_the_columns_that_had_no_room(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.resize(500, HEIGHT)
        await eventually(lambda: window.sidebar.isHidden() and window.stop_panel.isHidden())
        layout = window.save_layout()
        window.restore_layout(layout)
        window.resize(WIDTH, HEIGHT)
        await eventually(lambda: window.sidebar.isVisible() and window.stop_panel.isVisible())

    use(steps)


def test_the_columns_hold_when_the_window_is_hidden_and_shown(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        window.hide()
        window.show()
        await eventually(lambda: window.sidebar.isVisible() and window.stop_panel.isVisible())

    use(steps)


def test_readable_follows_the_font(sized: Theme, qapp: QApplication) -> None:
    one = QWidget()
    for percent in SIZES:
        sized.set_text_size(percent)
        metrics = one.fontMetrics()
        assert readable_px(metrics) - 2 * 26 >= metrics.horizontalAdvance("the letters ") / 12 * 40


@pytest.mark.parametrize("percent", SIZES)
def test_the_columns_of_the_request_log_have_room_for_their_names(
    sized: Theme, qtbot: QtBot, percent: int
) -> None:
    panel = RequestLogPanel(sized, RequestLog())
    qtbot.addWidget(panel)
    panel.show()
    sized.set_text_size(percent)
    head = panel.view.horizontalHeader()
    for column in range(head.count() - 1):
        name = panel.table.headerData(column, Qt.Orientation.Horizontal)
        assert panel.view.columnWidth(column) > head.fontMetrics().horizontalAdvance(name), name
