import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ui.kit import icons
from ui.kit.buttons import Choice
from ui.kit.colors import DARK
from ui.kit.commands import Command, context_menu
from ui.kit.labels import plain_tooltip
from ui.kit.theme import Theme
from ui.kit.windows import Popover, _CornerMask


def test_a_forced_mode_is_applied_at_once(qapp: QApplication, theme: Theme) -> None:
    heard: list[bool] = []
    theme.changed.connect(lambda: heard.append(theme.colors.is_dark))
    theme.set_mode("dark")
    window = qapp.palette().color(QPalette.ColorRole.Window)
    assert (heard[-1], window.name()) == (True, DARK.canvas)
    theme.set_mode("light")
    assert not theme.colors.is_dark


@pytest.mark.parametrize("name", icons._PATHS)
def test_every_icon_draws_something(qapp: QApplication, name: str) -> None:
    image = icons.pixmap(name, "#000000").toImage()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    assert any(image.pixelColor(x, y).alpha() > 100 for x, y in points)


def test_popover_has_a_ground_inside_its_round_corners(theme: Theme, qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    card = Popover(parent)
    card.resize(200, 100)
    image = card.grab().toImage()
    assert image.pixelColor(100, 50).name() == theme.colors.raised
    assert image.pixelColor(0, 0).alpha() == 0


def test_popups_have_round_corners(theme: Theme, qtbot: QtBot) -> None:
    choice = Choice("Answer", [("a", "A")])
    qtbot.addWidget(choice)
    choice.show()
    choice.showPopup()
    menu = context_menu(choice, "Answers", [Command("One", list)])
    for popup in (choice.view().window(), menu, Popover(choice)):
        assert popup.testAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
    choice.hidePopup()
    for popup, show in (
        (menu, lambda: menu.popup(QPoint())),
        (choice.view().window(), choice.showPopup),
    ):
        popup.installEventFilter(_CornerMask(popup, 8))
        show()
        assert not popup.mask().contains(QPoint(0, 0))
        assert popup.mask().contains(QPoint(30, 0))
        popup.close()


def test_tooltip_wraps_only_long_lines() -> None:
    shown = [plain_tooltip(text) for text in ("word", "word " * 20)]
    assert ["pre-wrap" in text for text in shown] == [False, True]
