"""Long stops, pastes, titles and names are cut or broken; nothing scrolls sideways for them."""

import asyncio
import json
from dataclasses import replace

import pytest
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine import StopRules
from engine.engine import Engine
from engine.values.request import ToolCall
from tests.support.answers.said import finished_run
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.messages.question_view import PlainBubble
from ui.kit.labels import (
    ElidedButton,
    ElidedChip,
    FactTable,
    WrappedLabel,
    breakable,
    label,
    plain_tool_tip,
)
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, StopEntry
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow

STOP = "x" * 4_096
PASTE = "y" * 20_000


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        window = main_window(engine, theme)
        window.resize(1280, 900)
        return window

    return enter(lambda: opened(make(), is_ready=True))


def sideways(window: QWidget) -> list[str]:
    """Name what can be scrolled sideways, and what reaches out of its scroll area."""
    return [
        f"{type(area).__name__} {area.objectName() or area.accessibleName()}"
        for area in window.findChildren(QAbstractScrollArea)
        if area.isVisible() and area.horizontalScrollBar().maximum() > 0
    ]


async def settled(window: MainWindow) -> None:
    for _ in range(5):
        await asyncio.sleep(0.02)


async def width_with_an_ordinary_stop(window: MainWindow) -> int:
    """Return how narrow the stop panel can be while it shows why an ordinary answer ended."""
    said = ConversationMessage(
        "assistant", run=finished_run("Some words END", rules=StopRules.of("END"))
    )
    window.workspace.take_in(Conversation("ordinary", [ConversationMessage("user", "Hi"), said]))
    await settled(window)
    return window.stop_panel.minimumSizeHint().width()


async def test_a_stop_of_4096_characters_scrolls_nothing_sideways(window: MainWindow) -> None:
    least = await width_with_an_ordinary_stop(window)
    window.workspace.current.stops.replace_all(
        [StopEntry.of(STOP), StopEntry.of(STOP[:-1] + "\\n"), StopEntry.of(f" {STOP}")], "set"
    )
    window.workspace.send("Count from 1 to 3")
    await eventually(lambda: not window.workspace.current.is_running)
    for row in range(3):
        window.stop_panel.editor.table.selectRow(row)
        await settled(window)
        assert sideways(window) == []
        assert window.stop_panel.minimumSizeHint().width() == least
    assert window.width() == 1280


async def test_an_answer_ended_by_a_long_stop_scrolls_nothing_sideways(window: MainWindow) -> None:
    least = await width_with_an_ordinary_stop(window)
    run_ = finished_run(f"Some words {STOP}", rules=StopRules.of(STOP))
    said = [ConversationMessage("user", PASTE), ConversationMessage("assistant", run=run_)]
    window.workspace.take_in(Conversation("z" * 500, said))
    await settled(window)
    assert sideways(window) == []
    assert window.stop_panel.minimumSizeHint().width() == least
    assert window.width() == 1280


async def test_a_paste_of_20000_characters_scrolls_nothing_sideways(window: MainWindow) -> None:
    window.chat.composer.set_text(PASTE)
    await settled(window)
    assert sideways(window) == []
    assert window.width() == 1280


async def test_a_question_keeps_to_its_bubble(window: MainWindow) -> None:
    run_ = finished_run("Fine.", tool_calls=[ToolCall("c", "t" * 300, json.dumps({"a": PASTE}))])
    said = [ConversationMessage("user", PASTE), ConversationMessage("assistant", run=run_)]
    window.workspace.take_in(Conversation("Long", said))
    await settled(window)
    window.chat.column.verticalScrollBar().setValue(0)
    await eventually(lambda: len(window.findChildren(PlainBubble)) == 1)
    (bubble,) = window.findChildren(PlainBubble)

    def reaches_to() -> int:
        return bubble.mapTo(window.chat, bubble.rect().topRight()).x()

    await eventually(lambda: 0 < reaches_to() <= window.chat.width())
    assert sideways(window) == []


async def test_a_long_model_name_is_cut(window: MainWindow) -> None:
    before = window.minimumSizeHint().width()
    model = window.workspace.models
    assert model.info is not None
    model.name = "maker/" + "Model-" * 60
    model.changed.emit()
    window.stop_panel.editor.end_tokens.show_tokens(replace(model.info, id=model.name), ())
    await settled(window)
    assert window.minimumSizeHint().width() == before
    assert sideways(window) == []
    assert window.width() == 1280


def test_long_words_break_and_text_stays_as_given(qapp: QApplication) -> None:
    one = label(STOP, is_wrapped=True)
    assert isinstance(one, WrappedLabel)
    assert one.text() == STOP
    assert one.minimumSizeHint().width() < 300
    assert breakable("short words stay") == "short words stay"


def test_a_cut_button_and_a_cut_chip_say_all_in_their_tool_tips(qtbot: QtBot) -> None:
    button, chip = ElidedButton(), ElidedChip(STOP)
    button.setText(f"Replace with {STOP}")
    for one in (button, chip):
        qtbot.addWidget(one)
        one.resize(120, 30)
        one.show()
        assert STOP in one.text()
        assert one.minimumSizeHint().width() < 120
    assert "x" * 500 in chip.toolTip().replace("\u200b", "")
    usual, ours = QPushButton("Add"), ElidedButton()
    ours.setText("Add")
    assert abs(ours.sizeHint().width() - usual.sizeHint().width()) <= 2
    assert ours.sizeHint().height() == usual.sizeHint().height()


def test_a_short_chip_leaves_the_other_values_the_width_of_the_table(qtbot: QtBot) -> None:
    facts = FactTable(QFont())
    qtbot.addWidget(facts)
    words = facts.add("Offset", "character 10 of the answer")
    chip = facts.add("Matched", "6", is_code=True)
    facts.resize(330, facts.sizeHint().height())
    facts.show()
    assert words.width() > 330 // 2
    assert words.x() == chip.x() < 330 // 2
    assert chip.width() < 60


def test_a_tool_tip_of_a_text_is_no_markup() -> None:
    assert "&lt;b&gt;" in plain_tool_tip("<b>bold</b>")
    assert len(plain_tool_tip("x" * 100_000)) < 5_000
