"""The arrow keys go through what was asked before; a slash offers presets."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.ui.chat.reading.conversations import long_conversation
from tests.ui.driving import END, ScriptedEngine, eventually
from tests.ui.keyboard import keyboard
from ui.records.codec import Preset
from ui.records.conversations import ConversationSettings
from ui.records.stop_entries import StopEntry
from ui.window.main_window import MainWindow

UP, DOWN = Qt.Key.Key_Up, Qt.Key.Key_Down


def press(*keys: Qt.Key) -> None:
    for key in keys:
        QTest.keyClick(keyboard(), key)


async def test_up_and_down_walk_through_earlier_prompts_and_back_to_the_draft(
    window: MainWindow,
) -> None:
    window.workspace.take_in(long_conversation(3))
    composer = window.chat.composer
    composer.set_text("my draft")
    press(UP)
    assert composer.text == "Question 2"
    assert window.workspace.current.conversation.draft == "my draft"
    press(UP, UP, UP, UP)
    assert composer.text == "Question 0"
    press(DOWN)
    assert composer.text == "Question 1"
    QTest.keyClicks(keyboard(), " again")
    press(UP, DOWN)
    assert composer.text == "Question 1 again", "what was changed on the way stays"
    press(DOWN, DOWN)
    assert composer.text == "my draft"
    press(DOWN)
    assert composer.text == "my draft"


async def test_a_slash_offers_presets_filters_them_and_uses_one(window: MainWindow) -> None:
    presets = window.workspace.presets
    composer, offers = window.chat.composer, window.chat.offers
    QTest.keyClicks(keyboard(), "/")
    assert offers.isVisible()
    assert "No presets yet" in offers.item(0).text()
    press(Qt.Key.Key_Backspace)
    assert not offers.isVisible()
    strict = ConversationSettings(temperature=0.0)
    presets.keep(Preset("Strict answers", strict, (StopEntry.of("END"),)))
    presets.keep(Preset("Very strict", strict))
    presets.keep(Preset("Poems", ConversationSettings(temperature=1.0)))
    QTest.keyClicks(keyboard(), "/")
    assert offers.names == ["Poems", "Strict answers", "Very strict"]
    assert offers.viewport().height() == 3 * offers.sizeHintForRow(0), "room for its rows alone"
    QTest.keyClicks(keyboard(), "stri")
    assert offers.names == ["Strict answers", "Very strict"]
    press(DOWN)
    assert composer.input.accessibleDescription() == "Very strict, preset 2 of 2"
    press(DOWN, Qt.Key.Key_Tab)
    current = window.workspace.current
    assert current.conversation.settings.temperature == 0.0
    assert [stop.stop.text for stop in current.stops.entries()] == ["END"]
    assert (composer.text, offers.isVisible()) == ("", False)
    assert keyboard() is composer.input


async def test_text_after_a_slash_that_is_not_a_preset_is_sent(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.presets.keep(Preset("etc", ConversationSettings()))
    QTest.keyClicks(keyboard(), "/e")
    assert window.chat.offers.names == ["etc"]
    press(Qt.Key.Key_Escape)
    assert not window.chat.offers.isVisible()
    QTest.keyClicks(keyboard(), "tc/hosts?")
    assert not window.chat.offers.isVisible(), "who closed the list does not want it"
    press(Qt.Key.Key_Return)
    await eventually(lambda: bool(scripted.requests))
    assert scripted.requests[0].messages[-1].content == "/etc/hosts?"
    scripted.say(END)
    await eventually(lambda: not window.workspace.current.is_running)
