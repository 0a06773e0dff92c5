"""While an answer streams: its rate, the last line of its thinking, and the way back to its end."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.values.events import TextDelta
from tests.ui.chat.reading.conversations import long_conversation
from tests.ui.driving import END, ScriptedEngine, begun, ended, eventually
from ui.window.main_window import MainWindow


async def test_a_reader_further_up_gets_a_button_to_the_latest_text(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.take_in(long_conversation())
    column = window.chat.column
    bar, jump = column.verticalScrollBar(), column.jump
    await eventually(lambda: bar.maximum() > 2_000 and bar.value() == bar.maximum())
    assert not jump.isVisible()
    run = await begun(window, scripted)
    scripted.say(TextDelta("So far.\n\n"))
    await eventually(lambda: run.text != "")
    bar.setValue(bar.maximum() // 2)
    assert jump.isVisible()
    assert not jump.has_news
    scripted.say(TextDelta("And on it goes.\n\n" * 9))
    await eventually(lambda: jump.has_news)
    assert jump.accessibleName().startswith("New text below")
    assert bar.value() < bar.maximum() - 500, "nobody who reads is moved"
    QTest.mouseClick(jump, Qt.MouseButton.LeftButton)
    await eventually(lambda: bar.value() == bar.maximum() and not jump.isVisible())
    scripted.say(TextDelta("And on.\n\n" * 40))
    await eventually(lambda: "And on.\n\n" * 40 in run.text)
    await eventually(lambda: bar.value() == bar.maximum())
    assert not jump.isVisible(), "the reader is at the end again, and stays there"
    assert not jump.has_news
    scripted.say(END)
    await ended(window)
