"""What an empty conversation shows fits into its column."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.chat.columns.welcome import Welcome
from ui.kit.theme import Theme


class Ready(QObject):
    """A model that is ready to answer."""

    changed = Signal()
    stage, name, message = "ready", "demo-model", ""
    info: Any = None
    can_answer = True
    is_stuck = False


@pytest.fixture(params=[100, 200])
def sized(request: pytest.FixtureRequest, theme: Theme) -> Iterator[Theme]:
    theme.set_text_size(request.param)
    yield theme
    theme.set_text_size(100)


def test_its_cards_fit_into_the_column_however_narrow_it_is(qtbot: QtBot, sized: Theme) -> None:
    welcome = Welcome(cast(Any, Ready()))
    qtbot.addWidget(welcome)
    welcome.show()
    columns = set()
    for width in range(sized.px(400), sized.px(760), 20):
        welcome.resize(width, 900)
        QApplication.processEvents()
        columns.add(len({card.x() for card in welcome.buttons}))
        visible = welcome.viewport().width()
        ends = [card.mapTo(welcome, QPoint(card.width(), 0)).x() for card in welcome.buttons]
        assert max(ends) <= visible, width
    assert columns == {1, 2}
