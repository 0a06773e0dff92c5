import pytest
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ui.kit import icons
from ui.kit.colors import DARK
from ui.kit.theme import Theme
from ui.kit.windows import Popover


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
