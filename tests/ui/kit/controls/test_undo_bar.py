"""The bar that offers to undo."""

from pytestqt.qtbot import QtBot

from ui.kit.buttons import UndoBar
from ui.kit.theme import Theme

WORDS = "Archived “Elderberries”"


def test_what_can_be_undone_is_said_whole_beside_the_button_or_above_it(
    qtbot: QtBot, theme: Theme
) -> None:
    bar = UndoBar()
    qtbot.addWidget(bar)
    bar.resize(600, 60)
    bar.offer(WORDS)
    words, button = bar.message, bar.button
    qtbot.waitUntil(lambda: words.geometry().right() < button.geometry().left())
    bar.resize(words.fontMetrics().horizontalAdvance(WORDS), 160)
    qtbot.waitUntil(lambda: words.geometry().bottom() < button.geometry().top())
    assert words.height() >= words.heightForWidth(words.width())
