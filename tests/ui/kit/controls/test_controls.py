"""Fields, lists that drop down, and flows of chips, each by itself."""

import pytest
from PySide6.QtGui import QAction, QColor
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFrame,
    QPushButton,
    QRadioButton,
    QStyle,
    QStyleOptionComboBox,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ui.kit.buttons import Choice
from ui.kit.colors import LIGHT
from ui.kit.fields import SearchLineEdit
from ui.kit.layouts import FlowLayout
from ui.kit.theme import Theme, stylesheet


def ink_of(button: QAction) -> QColor:
    """The color of an icon's most solid point."""
    image = button.icon().pixmap(16).toImage()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    return max((image.pixelColor(*point) for point in points), key=lambda color: color.alpha())


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_button_that_empties_a_field_has_the_color_of_the_theme(
    theme: Theme, qapp: QApplication, mode: str
) -> None:
    field = SearchLineEdit("Filter", "Clear Filter")
    theme.set_mode(mode)  # type: ignore[arg-type]
    assert ink_of(field.clear_action).name() == theme.colors.muted


def test_clear_button_is_shown_with_text_and_clears_it(theme: Theme, qtbot: QtBot) -> None:
    field = SearchLineEdit("Filter", "Clear Filter")
    qtbot.addWidget(field)
    assert not field.clear_action.isVisible()
    field.setText("words")
    assert field.clear_action.isVisible()
    field.clear_action.trigger()
    assert field.text() == ""
    assert not field.clear_action.isVisible()


def test_a_list_that_drops_down_has_one_frame(theme: Theme, qapp: QApplication) -> None:
    choice = Choice("Size", [(str(n), f"{n}%") for n in range(5)])
    choice.show()
    hint = QStyle.StyleHint.SH_ComboBox_Popup
    option = QStyleOptionComboBox()
    choice.initStyleOption(option)
    assert choice.style().styleHint(hint, option, choice) == 0
    choice.showPopup()
    qapp.processEvents()
    container = choice.view().parentWidget()
    assert isinstance(container, QFrame)
    view = choice.view()
    frames = [view.x(), view.y(), container.width() - view.geometry().right() - 1]
    assert frames == [0, 0, 0]
    choice.hidePopup()
    choice.close()


def test_a_chosen_radio_button_is_as_round_and_large_with_the_focus(
    qtbot: QtBot, theme: Theme
) -> None:
    around = QWidget()
    qtbot.addWidget(around)
    row = QVBoxLayout(around)
    one, other = QRadioButton("One"), QRadioButton("Other")
    row.addWidget(one)
    row.addWidget(other)
    one.setChecked(True)
    around.show()
    around.activateWindow()
    qtbot.waitUntil(around.isActiveWindow)

    def accent_px() -> int:
        picture = one.grab().toImage()
        area = [picture.pixelColor(x, y) for x in range(20) for y in range(picture.height())]
        return sum(color == QColor(theme.colors.accent) for color in area)

    other.setFocus()
    usual = accent_px()
    one.setFocus()
    assert one.hasFocus()
    assert usual > 80
    assert accent_px() > 0.7 * usual


def test_other_lists_that_drop_down_keep_their_arrow() -> None:
    sheet = stylesheet(LIGHT)
    rules = [line for line in sheet.splitlines() if "::down-arrow" in line]
    assert rules
    assert all('[kind="choice"]' in rule for rule in rules)
    assert issubclass(Choice, QComboBox)


def test_a_flow_breaks_its_lines_where_the_room_ends(qapp: QApplication) -> None:
    holder = QWidget()
    flow = FlowLayout(holder)
    flow.setSpacing(4)
    for _ in range(4):
        one = QPushButton()
        one.setFixedSize(100, 20)
        flow.addWidget(one)
    assert flow.heightForWidth(1_000) == 20
    assert flow.heightForWidth(204) == 44
    assert flow.heightForWidth(203) == 4 * 20 + 3 * 4
    assert flow.count() == 4
    assert flow.takeAt(9) is None
