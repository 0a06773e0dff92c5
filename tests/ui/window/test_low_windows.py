"""Windows and popovers on low screens: nothing is cut off, everything can be reached."""

import pytest
from PySide6.QtGui import QImage, QStandardItemModel
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QListView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.composer.composer import Composer
from ui.chat.session.context_meter import Count
from ui.chat.session.conversation_list import ConversationRole
from ui.chat.sidebar_rows import ConversationDelegate
from ui.kit import layouts
from ui.kit.theme import Theme, restyle
from ui.kit.windows import OwnWindow, move_focus

WIDTH, HEIGHT = 1280, 900


def test_a_window_fits_the_screen(theme: Theme, qtbot: QtBot) -> None:
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


def test_a_field_keeps_its_size_when_it_is_marked_as_wrong(
    theme: Theme, qapp: QApplication
) -> None:
    field = QLineEdit()
    font = field.font()
    font.setPointSizeF(font.pointSizeF() * 1.2)
    field.setFont(font)
    usual = field.font().pointSizeF()
    field.show()
    restyle(field, "invalid", True)
    assert field.font().pointSizeF() == pytest.approx(usual)
    restyle(field, "invalid", False)
    assert field.font().pointSizeF() == pytest.approx(usual)
    field.close()


def test_the_row_below_the_text_fits_a_narrow_composer(theme: Theme, qtbot: QtBot) -> None:
    chat, composer = QWidget(), Composer()
    qtbot.addWidget(chat)
    composer.setParent(chat)
    composer.show_stage(True, False, "Message")
    composer.show_thinking(True, False)
    composer.show_count(Count(3, 30, 4_000))
    chat.show()
    for width in (900, 500, 330):
        composer.setGeometry(0, 0, width, 200)
        QApplication.processEvents()
        end = composer.action.mapTo(composer, composer.action.rect().topRight()).x()
        assert end < width, width


def test_a_title_has_room_beside_an_old_date(theme: Theme, qtbot: QtBot) -> None:
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
        for height, is_said in ((760, True), (420, False), (1400, True)):
            window.resize(1400, height)
            await eventually(lambda is_said=is_said: words.isVisible() is is_said)


async def test_all_settings_are_on_the_screen_at_every_size_and_keep_their_place(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    window = main_window(scripted, theme)
    async with shown(window, quits=True):
        for height in (HEIGHT, 500):
            window.resize(WIDTH, height)
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
        for height in (800, 420):
            window.resize(1280, height)
            await eventually(lambda: field.geometry().bottom() < row.geometry().top())
            assert composer.rect().contains(row.geometry()), height
