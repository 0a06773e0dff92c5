"""What stands beside text grows with it, and the chat between the columns stays readable."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics, QImage, QStandardItemModel
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QListView,
    QStyle,
    QStyleOptionButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.composer.composer import Composer
from ui.chat.messages.message_foot import ReasonLine
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.context_meter import Count
from ui.chat.session.conversation_list import ConversationRole
from ui.chat.sidebar_rows import ConversationDelegate
from ui.kit import layouts
from ui.kit.buttons import CheckBox, ChipButton, IconBadge, IconButton, ToggleSwitch
from ui.kit.colors import of_glyphs
from ui.kit.fields import add_clear_button, add_leading_icon
from ui.kit.labels import StatusPill, label
from ui.kit.theme import Theme, restyle, stylesheet
from ui.kit.windows import OwnWindow, move_focus
from ui.records.messages import question
from ui.server.request_log import RequestLogPanel
from ui.server.requests import RequestLog
from ui.words import Tone

SIZES = (100, 150, 200)
WIDTH, HEIGHT = 1280, 900


def controls(theme: Theme) -> dict[str, QWidget]:
    pill, reason = StatusPill("State"), ReasonLine()
    pill.show_state("Ready", "check", Tone.DONE)
    reason.show_reason("", "Stopped", ["12 tokens"], "check", Tone.DONE)
    return {
        "icon button": IconButton("plus", "Add"),
        "chip": ChipButton("sliders", "Settings"),
        "badge": IconBadge(36),
        "switch": ToggleSwitch("Server"),
        "box": CheckBox("On"),
        "pill": pill,
        "reason": reason,
    }


def test_the_corners_of_a_short_question_are_round_at_every_size(
    theme: Theme, qtbot: QtBot
) -> None:
    for size in SIZES:
        theme.set_text_size(size)
        view = QuestionView(question("Why?"))
        qtbot.addWidget(view)
        view.show()
        bubble = view.findChild(QWidget, "bubble")
        assert isinstance(bubble, QWidget)
        QApplication.processEvents()
        view.resize(400, view.sizeHint().height())
        QApplication.processEvents()
        corner = bubble.mapTo(view, QPoint())
        image = view.grab().toImage()
        edge = image.pixelColor(corner + QPoint(bubble.width() // 2, 1))
        assert edge.name() == theme.colors.bubble
        assert image.pixelColor(corner + QPoint(1, 1)) != edge, f"square at {size} %"
        view.hide()


@pytest.mark.parametrize("order", ["made before", "made after"])
def test_controls_are_twice_as_large_with_text_of_twice_the_size(
    theme: Theme, qapp: QApplication, order: str
) -> None:
    usual = {name: one.sizeHint() for name, one in controls(theme).items()}
    found = controls(theme)
    theme.set_text_size(200)
    if order == "made after":
        found = controls(theme)
    for name, one in found.items():
        height = one.sizeHint().height()
        assert height >= usual[name].height() * 1.5, name
        assert height >= QFontMetrics(one.font()).height(), name


@pytest.mark.parametrize("percent", SIZES)
def test_a_window_fits_the_screen(theme: Theme, qtbot: QtBot, percent: int) -> None:
    theme.set_text_size(percent)
    screen = QApplication.primaryScreen().availableSize()
    window = OwnWindow("Large", (screen.width(), screen.height()), None)
    qtbot.addWidget(window)
    assert window.width() <= screen.width()
    assert window.height() < screen.height(), "its title has room"


def test_tab_scrolls_to_a_control_that_is_not_in_sight(theme: Theme, qtbot: QtBot) -> None:
    window = OwnWindow("Form", (300, 200), None)
    qtbot.addWidget(window)
    fields, inside = [QLineEdit() for _ in range(30)], QWidget()
    layouts.column(*fields, on=inside)
    layouts.column(layouts.scrolling(inside, ""), on=window)
    window.show()
    QApplication.processEvents()  # the form gets its layout
    fields[0].setFocus()
    for field in fields[1:]:
        move_focus(window, True)
        assert not field.visibleRegion().isEmpty()


@pytest.mark.parametrize("percent", SIZES)
def test_icons_keep_their_proportion_to_the_letters(theme: Theme, percent: int) -> None:
    button, chip = IconButton("plus", "Add"), ChipButton("sliders", "Settings")
    ratios = {one.iconSize().height() / one.fontMetrics().height() for one in (button, chip)}
    theme.set_text_size(percent)
    now = {one.iconSize().height() / one.fontMetrics().height() for one in (button, chip)}
    assert min(now) == pytest.approx(min(ratios), rel=0.15)


def test_icons_in_a_field_grow_with_its_text_and_leave_it_room(theme: Theme, qtbot: QtBot) -> None:
    field = QLineEdit("words")
    qtbot.addWidget(field)
    glass, clear = add_leading_icon(field, "search"), add_clear_button(field, "Clear")
    field.show()
    usual = glass.height(), clear.iconSize().height()
    theme.set_text_size(200)
    field.resize(400, field.sizeHint().height())
    assert (glass.height(), clear.iconSize().height()) == (2 * usual[0], 2 * usual[1])
    assert field.rect().contains(glass.geometry())
    assert field.rect().contains(clear.geometry())
    assert field.textMargins().left() >= usual[0]


@pytest.mark.parametrize("percent", SIZES)
def test_boxes_keep_their_proportion_to_the_letters(theme: Theme, percent: int) -> None:
    box = CheckBox("On")
    box.show()
    theme.set_text_size(percent)
    option = QStyleOptionButton()
    box.initStyleOption(option)
    side = box.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, box).height()
    assert side >= 0.75 * QFontMetrics(box.font()).height()
    box.close()


def test_the_style_sheet_grows_all_but_hairlines(theme: Theme) -> None:
    usual, large = stylesheet(theme.colors), stylesheet(theme.colors, 200)
    assert "width: 15px; height: 15px" in usual
    assert "width:" in large
    assert "30px" in large
    assert "1px solid" in large
    assert large.count("{") == usual.count("{")
    assert large.count(";") == usual.count(";")


def test_no_text_is_so_small_that_controls_become_tiny() -> None:
    assert of_glyphs(70) >= 0.9


def test_a_field_keeps_its_size_when_it_is_marked_as_wrong(
    theme: Theme, qapp: QApplication
) -> None:
    field = QLineEdit()
    font = field.font()
    font.setPointSizeF(font.pointSizeF() * 1.2)
    field.setFont(font)
    usual = field.font().pointSizeF()
    field.show()
    theme.set_text_size(200)
    restyle(field, "invalid", True)
    assert field.font().pointSizeF() == pytest.approx(2 * usual)
    restyle(field, "invalid", False)
    theme.set_text_size(100)
    assert field.font().pointSizeF() == pytest.approx(usual)
    field.close()


def test_what_was_made_with_large_text_is_usual_when_the_text_is(
    theme: Theme, qapp: QApplication
) -> None:
    theme.set_text_size(200)
    made = label("Words", "muted", 0.9)
    made.show()
    large = made.font().pointSizeF()
    theme.set_text_size(100)
    theme.set_mode("dark")
    theme.set_mode("light")
    assert made.font().pointSizeF() == pytest.approx(large / 2)
    theme.set_text_size(200)
    assert made.font().pointSizeF() == pytest.approx(large)
    made.close()


def test_the_row_below_the_text_fits_a_narrow_composer(theme: Theme, qtbot: QtBot) -> None:
    chat, composer = QWidget(), Composer()
    qtbot.addWidget(chat)
    composer.setParent(chat)
    composer.show_stage(True, False, "Message")
    composer.show_thinking(True, False)
    theme.set_text_size(200)
    composer.show_count(Count(3, 30, 4_000))
    chat.show()
    for width in (900, 500, 330):
        composer.setGeometry(0, 0, width, 200)
        QApplication.processEvents()
        end = composer.action.mapTo(composer, composer.action.rect().topRight()).x()
        assert end < width, width


@pytest.mark.parametrize("percent", SIZES)
def test_the_columns_of_the_request_log_have_room_for_their_names(
    theme: Theme, qtbot: QtBot, percent: int
) -> None:
    panel = RequestLogPanel(RequestLog())
    qtbot.addWidget(panel)
    panel.resize(4_000, 400)
    panel.show()
    theme.set_text_size(percent)
    head = panel.view.horizontalHeader()
    for column in range(head.count() - 1):
        name = panel.table.headerData(column, Qt.Orientation.Horizontal)
        assert not panel.view.isColumnHidden(column)
        assert panel.view.columnWidth(column) > head.fontMetrics().horizontalAdvance(name), name


def test_a_title_has_room_beside_an_old_date(theme: Theme, qtbot: QtBot) -> None:
    theme.set_text_size(200)
    view, model = QListView(), QStandardItemModel(1, 1)
    qtbot.addWidget(view)
    view.setModel(model)
    view.setItemDelegate(ConversationDelegate(view))
    view.resize(250, 200)
    view.show()

    def row(title: str) -> QImage:
        values = {
            ConversationRole.TITLE: title,
            ConversationRole.UPDATED_AT: 1.7e9,
            ConversationRole.IS_PINNED: True,
        }
        for role, value in values.items():
            model.setData(model.index(0, 0), value, role)
        return view.viewport().grab().toImage()

    assert row("Alpha") != row("Beta")


async def test_the_servers_card_leaves_the_list_its_room_in_a_low_window(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    window = main_window(scripted, theme)
    async with shown(window, quits=True):
        (words,) = (
            one for one in window.sidebar.server.findChildren(QLabel) if "Off." in one.text()
        )
        for percent, height, is_said in ((100, 760, True), (200, 760, False), (200, 1400, True)):
            window.preferences.change(text_percent=percent)
            window.resize(1400, height)
            await eventually(lambda is_said=is_said: words.isVisible() is is_said)


async def test_all_settings_are_on_the_screen_at_every_size_and_keep_their_place(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    window = main_window(scripted, theme)
    async with shown(window, quits=True):
        for percent in SIZES:
            window.preferences.change(text_percent=percent)
            window.chat.show_settings()
            card = window.chat.settings
            screen = window.screen().availableGeometry()
            bottom = card.geometry().bottom()
            assert screen.contains(card.geometry())
            card._more.click()
            await eventually(lambda card=card: card.stop_options["min_tokens"].isVisible())
            assert screen.contains(card.geometry())
            assert card.geometry().bottom() == bottom
            assert card._area.geometry().bottom() < card.reset.geometry().top()
            assert card.rect().contains(card.reset.geometry())
            seen, inside = card._area.viewport(), card._area.widget()
            await eventually(lambda seen=seen, inside=inside: inside.width() <= seen.width())
            card._more.click()
            card.hide()


async def test_a_long_message_leaves_the_row_below_it_its_room_in_a_low_window(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    window = main_window(scripted, theme)
    async with shown(window, quits=True):
        composer = window.chat.composer
        field, row = composer.input, composer._row
        composer.set_text("a line\n" * 20)
        for percent, height in ((100, 800), (100, 420), (200, 800), (200, 520)):
            window.preferences.change(text_percent=percent)
            window.resize(1280, height)
            await eventually(lambda: field.geometry().bottom() < row.geometry().top())
            assert composer.rect().contains(row.geometry()), (percent, height)
