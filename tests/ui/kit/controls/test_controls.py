"""Fields, lists that drop down, and flows of chips, each by itself."""

from PySide6.QtWidgets import (
    QApplication,
    QPushButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ui.kit.fields import SearchLineEdit
from ui.kit.layouts import FlowLayout
from ui.kit.theme import Theme


def test_clear_button_is_shown_with_text_and_clears_it(theme: Theme, qtbot: QtBot) -> None:
    field = SearchLineEdit("Filter", "Clear Filter")
    qtbot.addWidget(field)
    assert not field.clear_action.isVisible()
    field.setText("words")
    assert field.clear_action.isVisible()
    field.clear_action.trigger()
    assert field.text() == ""
    assert not field.clear_action.isVisible()


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
