"""Opening settings changes nothing, and an edit changes what was edited."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from engine.stopping.rules import STOP_OPTIONS, StopScope
from tests.support.asking import other_stop_options
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.composer.settings_popover import SettingsBasis, SettingsPopover, settings_summary
from ui.chat.session.presets import PresetList
from ui.kit.buttons import Choice
from ui.kit.fields import NumberField
from ui.kit.theme import Theme
from ui.preferences import NewConversation, Preferences
from ui.records.codec import Preset
from ui.records.conversations import ConversationSettings
from ui.window.preferences_dialog import PreferencesDialog

ODD = [
    ConversationSettings(),
    ConversationSettings(
        "a\u00a0b\r\nc\u2028d\x0be",
        temperature=0.125,
        max_tokens=7,
        is_thinking=True,
        top_p=0.123456789012345,
        top_k=3,
        min_p=1e-7,
    ),
    ConversationSettings(temperature=2.75, max_tokens=5_000_000, top_k=200_000, top_p=1.5),
    ConversationSettings(seed=2**60 + 1, repetition_penalty=1 / 3, min_p=0.005),
]


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    return widget


def settings_card(parent: QWidget) -> tuple[SettingsPopover, list[ConversationSettings]]:
    """Return the card, and what a person changes in it."""
    popover = SettingsPopover(parent, PresetList(MemoryConversationStore()))
    edited: list[ConversationSettings] = []
    popover.edited.connect(edited.append)
    return popover, edited


@pytest.mark.parametrize("settings", ODD)
def test_opening_and_closing_the_settings_of_a_conversation_changes_none(
    parent: QWidget, theme: Theme, settings: ConversationSettings
) -> None:
    popover, edited = settings_card(parent)
    popover.show_settings(settings)
    popover.pop_up(parent)
    for field in popover.findChildren(NumberField):
        field.setFocus()
    popover.hide()
    assert edited == []


@pytest.mark.parametrize("settings", ODD)
def test_opening_and_closing_the_preferences_changes_none(
    parent: QWidget, theme: Theme, settings: ConversationSettings
) -> None:
    begin = NewConversation(
        settings.system_prompt, settings.temperature, settings.max_tokens, settings.is_thinking
    )
    kept = Preferences(new_conversation=begin, text_percent=105)
    preferences = preferences_state(kept)
    dialog = PreferencesDialog(preferences, parent)
    dialog.show()
    for button in dialog.buttons.buttons():
        button.click()
    for field in dialog.findChildren(NumberField):
        field.setFocus()
    dialog.close()
    assert preferences.now == kept


def test_an_edited_number_changes_alone(parent: QWidget, theme: Theme) -> None:
    popover, edited = settings_card(parent)
    before = ODD[1]
    popover.show_settings(before)
    popover.pop_up(parent)
    field = popover.sampling["temperature"]
    field.selectAll()
    QTest.keyClicks(field, "0.375")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert [(one.temperature, one.top_p) for one in edited] == [(0.375, before.top_p)]
    assert edited[0].system_prompt == before.system_prompt
    QTest.keyClicks(popover.system_prompt, "!")
    popover.hide()
    assert edited[-1].temperature == 0.375
    assert edited[-1].system_prompt.startswith("!")


def test_every_stop_option_has_a_control_and_is_named_where_it_differs(
    parent: QWidget, theme: Theme
) -> None:
    popover, edited = settings_card(parent)
    popover.show_settings(ConversationSettings(temperature=0.5))
    # In the window each stop has a scope of its own.
    assert {*popover.stop_options} == {one.name for one in STOP_OPTIONS} - {"scope"}
    for control in popover.stop_options.values():
        if isinstance(control, NumberField):
            control.setValue(3)
        else:
            control.click()
    options = replace(other_stop_options(), scope=StopScope.TEXT)
    assert edited[-1] == ConversationSettings(temperature=0.5, stop_options=options)
    said = settings_summary(edited[-1])
    assert said.startswith("Temperature 0.5, keep the stop in the answer, ")
    assert all(one.title.lower() in said for one in STOP_OPTIONS if one.name != "scope")
    count = len(edited)
    popover.show_settings(ConversationSettings())
    popover.show_settings(edited[-1])
    assert len(edited) == count


def scroll_over(field: QWidget) -> None:
    center, turn = QPointF(field.rect().center()), QPoint(0, 120)
    button, keys = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    phase, where = Qt.ScrollPhase.NoScrollPhase, field.mapToGlobal(center)
    event = QWheelEvent(center, where, QPoint(), turn, button, keys, phase, False)
    QApplication.sendEvent(field, event)


def test_scrolling_past_fields_changes_none(parent: QWidget, theme: Theme, qtbot: QtBot) -> None:
    popover, edited = settings_card(parent)
    popover.show_settings(ConversationSettings(max_tokens=12))
    scroll_over(popover.max_tokens)
    assert (popover.max_tokens.number, edited) == (12, [])
    choice = Choice("Size", [("s", "Small"), ("m", "Medium"), ("l", "Large")])
    qtbot.addWidget(choice)
    choice.choose("m")
    scroll_over(choice)
    assert choice.currentData() == "m"


BASIS = SettingsBasis(
    "m", {"temperature": 0.7}, 4096, ConversationSettings(top_p=0.5), ConversationSettings(top_k=9)
)


def test_the_models_own_numbers_and_its_context_are_shown(parent: QWidget, theme: Theme) -> None:
    popover = SettingsPopover(parent, PresetList(MemoryConversationStore()))
    popover.show_basis(BASIS)
    popover.show_settings(ConversationSettings())
    assert popover.about.text() == "m · context of 4,096 tokens"
    assert popover.sampling["temperature"].text() == "0.7 (model)"
    assert popover.sampling["top_p"].text() == "1 (model)"
    assert popover.max_tokens.text() == "No limit (4,096)"
    assert popover.sampling["seed"].text() == "Random"
    share = popover.sliders["temperature"].value() / popover.sliders["temperature"].maximum()
    assert share == pytest.approx(0.35)


def test_each_number_says_where_it_comes_from_and_goes_back_there(
    parent: QWidget, theme: Theme
) -> None:
    popover, edited = settings_card(parent)
    popover.show_basis(BASIS)
    popover.show_settings(ConversationSettings(temperature=1.5, top_p=0.5, top_k=9))
    said = {name: popover.sampling[name].accessibleDescription() for name in popover.sampling}
    assert said["temperature"] == "Set in this chat"
    assert said["top_p"] == "For new chats with m"
    assert said["top_k"] == "From Settings"
    assert said["min_p"] == ""
    assert popover.resets["top_p"].isHidden()
    popover.resets["temperature"].click()
    assert edited[-1] == ConversationSettings(top_p=0.5, top_k=9)
    popover.reset.click()
    assert edited[-1] == BASIS.saved
    assert not popover.reset.isEnabled()


async def test_new_chats_with_a_model_begin_with_what_was_kept_for_it(
    engine: Engine, theme: Theme
) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.start()
        workspace = window.workspace
        await eventually(lambda: workspace.model_selection.state.info is not None)
        window.chat.show_settings()
        card = window.chat.settings
        card.sampling["temperature"].setValue(0.4)
        card.keep.click()
        assert not card.keep.isEnabled()
        card.hide()
        workspace.send("Count from 1 to 3")
        window.chat.new_conversation()
        assert workspace.current.conversation.settings.temperature == 0.4
        window.chat.show_settings()
        card.forget.click()
        assert workspace.current.conversation.settings.temperature is None
        card.hide()


async def test_verdict_of_a_limit_names_its_preset_until_the_limit_is_changed(
    engine: Engine, theme: Theme
) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.start()
        workspace = window.workspace
        await eventually(lambda: workspace.model_selection.state.info is not None)
        workspace.use_preset(Preset("Short", ConversationSettings(max_tokens=3, temperature=0.0)))
        settings = workspace.current.conversation.settings
        for changed, source in (
            (settings, "the preset “Short”"),
            (replace(settings, top_k=5), "the preset “Short”"),
            (replace(settings, max_tokens=4), "the conversation settings"),
        ):
            workspace.change_settings(changed)
            workspace.send("Count from 1 to 10")
            await eventually(lambda: not workspace.current.is_running)
            run = workspace.current.latest_run
            assert run is not None
            assert run.verdict is not None
            assert run.verdict.text.line.endswith(f"set by {source}")
