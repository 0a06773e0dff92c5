"""Opening settings changes nothing, and an edit changes what was edited."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from engine.stopping.rules import STOP_OPTIONS, StopScope
from tests.support.asking import other_stop_options
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.session.presets import PresetList
from ui.chat.settings_page import SettingsBasis, SettingsPage, settings_summary
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


@pytest.fixture
def page(qtbot: QtBot, theme: Theme) -> SettingsPage:
    page = SettingsPage(PresetList(MemoryConversationStore()))
    qtbot.addWidget(page)
    page.show()
    return page


def edits_of(page: SettingsPage) -> list[ConversationSettings]:
    """Return what a user changes in the page, in a list that grows."""
    edited: list[ConversationSettings] = []
    page.edited.connect(lambda settings, _: edited.append(settings))
    return edited


@pytest.mark.parametrize("settings", ODD)
def test_opening_and_closing_the_settings_of_a_conversation_changes_none(
    page: SettingsPage, settings: ConversationSettings
) -> None:
    edited = edits_of(page)
    page.show_settings(SettingsBasis(), settings)
    for field in page.findChildren(NumberField):
        field.setFocus()
    page.hide()
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


def test_an_edited_number_changes_alone(page: SettingsPage) -> None:
    edited, before = edits_of(page), ODD[1]
    page.show_settings(SettingsBasis(), before)
    field = page.sampling["temperature"]
    field.selectAll()
    QTest.keyClicks(field, "0.375")
    assert field.text() == "0.375", "it counts while it is typed"
    assert (edited[-1].temperature, edited[-1].top_p) == (0.375, before.top_p)
    assert edited[-1].system_prompt == before.system_prompt
    QTest.keyClicks(page.system_prompt, "!?")
    assert edited[-1].temperature == 0.375
    assert edited[-1].system_prompt.startswith("!?")


def test_every_stop_option_has_a_control_and_is_named_where_it_differs(
    page: SettingsPage,
) -> None:
    edited = edits_of(page)
    page.show_settings(SettingsBasis(), ConversationSettings(temperature=0.5))
    # In the window each stop has a scope of its own.
    assert {*page.stop_options} == {one.name for one in STOP_OPTIONS} - {"scope"}
    for control in page.stop_options.values():
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
    page.show_settings(SettingsBasis(), ConversationSettings())
    page.show_settings(SettingsBasis(), edited[-1])
    assert len(edited) == count


def scroll_over(field: QWidget) -> None:
    center, turn = QPointF(field.rect().center()), QPoint(0, 120)
    button, keys = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    phase, where = Qt.ScrollPhase.NoScrollPhase, field.mapToGlobal(center)
    event = QWheelEvent(center, where, QPoint(), turn, button, keys, phase, False)
    QApplication.sendEvent(field, event)


def test_scrolling_past_fields_changes_none(page: SettingsPage, qtbot: QtBot) -> None:
    edited = edits_of(page)
    page.show_settings(SettingsBasis(), ConversationSettings(max_tokens=12))
    scroll_over(page.max_tokens)
    assert (page.max_tokens.number, edited) == (12, [])
    choice = Choice("Size", [("s", "Small"), ("m", "Medium"), ("l", "Large")])
    qtbot.addWidget(choice)
    choice.choose("m")
    scroll_over(choice)
    assert choice.currentData() == "m"


BASIS = SettingsBasis(
    "m",
    {"temperature": 0.7},
    4096,
    saved=ConversationSettings(top_p=0.5),
    usual=ConversationSettings(top_k=9),
)


def test_settings_page_without_a_model_differs_in_nothing(page: SettingsPage) -> None:
    assert all(reset.isHidden() for reset in page.resets.values())
    assert page.sampling["temperature"].text() == "Default"
    assert not page.keep.isVisible()
    assert not page.forget.isVisible()
    assert page.reset.isHidden()


def test_the_models_own_numbers_and_its_context_are_shown(page: SettingsPage) -> None:
    page.show_settings(BASIS, ConversationSettings())
    assert page.limits.text() == "Context of 4,096 tokens"
    assert page.sampling["temperature"].text() == "0.7"
    assert page.sampling["temperature"].accessibleDescription() == "Model default"
    assert page.sampling["top_p"].text() == "Off"
    assert page.max_tokens.text() == "No limit"
    assert page.sampling["seed"].text() == "Random"
    share = page.sliders["temperature"].value() / page.sliders["temperature"].maximum()
    assert share == pytest.approx(0.35)
    assert page.sliders["repetition_penalty"].value() == 0, "it is off"


def test_each_number_says_where_it_comes_from_and_goes_back_there(page: SettingsPage) -> None:
    edited = edits_of(page)
    page.show_settings(BASIS, ConversationSettings(temperature=1.5, top_p=0.5, top_k=9))
    said = {name: page.sampling[name].accessibleDescription() for name in page.sampling}
    assert said["temperature"] == "Set in this chat"
    assert said["top_p"] == "For new chats with m"
    assert said["top_k"] == "From Settings"
    assert said["min_p"] == "Model default"
    assert page.resets["top_p"].isHidden()
    page.resets["temperature"].click()
    assert edited[-1] == ConversationSettings(top_p=0.5, top_k=9)
    assert page.sampling["temperature"].hasFocus()
    page.reset.click()
    assert edited[-1] == BASIS.saved
    assert page.reset.isHidden()


def test_dot_resets_prompt_and_check_boxes(page: SettingsPage) -> None:
    edits = edits_of(page)
    page.system_prompt.setPlainText("Be brief.")
    for control in page.stop_options.values():
        if isinstance(control, NumberField):
            control.setValue(3)
        else:
            control.click()
    shown_names = [name for name, dot in page.resets.items() if not dot.isHidden()]
    assert shown_names == ["system_prompt", *page.stop_options]
    for name in shown_names:
        page.resets[name].click()
        assert page.resets[name].isHidden()
    assert edits[-1] == ConversationSettings()
    assert page.system_prompt.text == ""


def test_options_without_effect_on_model_are_hidden(page: SettingsPage) -> None:
    plain = replace(BASIS, can_think=False, has_template_end=False)
    page.show_settings(plain, ConversationSettings())
    box = page.stop_options["ignore_template_eos"]
    assert page.thinking_budget.isHidden()
    assert box.isHidden()
    page.show_settings(plain, ConversationSettings(thinking_budget=64))
    assert not page.thinking_budget.isHidden(), "a set value can be removed"
    page.show_settings(BASIS, ConversationSettings())
    assert not page.thinking_budget.isHidden()
    assert not box.isHidden()


async def test_thinking_is_undone(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        current = window.workspace.current
        window.chat._set_thinking(not current.conversation.settings.is_thinking)
        assert current.undo_stack.undoText() == "Turn On Thinking"
        current.undo_stack.undo()
        assert current.conversation.settings == ConversationSettings()


async def test_new_chats_with_a_model_begin_with_what_was_kept_for_it(
    engine: Engine, theme: Theme
) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.start()
        workspace = window.workspace
        await eventually(lambda: workspace.model_selection.state.info is not None)
        card = window.chat.settings
        window.pane.open(card)
        card.sampling["temperature"].setValue(0.4)
        card.keep.click()
        assert card.keep.isHidden()
        workspace.send("Count from 1 to 3")
        window.chat.new_conversation()
        assert workspace.current.conversation.settings.temperature == 0.4
        card.forget.click()
        assert workspace.current.conversation.settings.temperature is None


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


async def test_changes_of_a_setting_are_undone_together(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        card, current = window.chat.settings, window.workspace.current
        for value in (0.4, 0.5, 0.6):
            card.sampling["temperature"].setValue(value)
        card.sampling["top_k"].setValue(3)
        assert current.undo_stack.undoText() == "Change Top k"
        current.undo_stack.undo()
        assert card.sampling["top_k"].number is None
        current.undo_stack.undo()
        assert current.conversation.settings.temperature is None
        assert card.sampling["temperature"].number is None
        current.undo_stack.redo()
        assert card.sampling["temperature"].number == 0.6


async def test_undo_of_a_setting_leaves_others_as_they_are(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        card, current = window.chat.settings, window.workspace.current
        card.sampling["temperature"].setValue(0.4)
        window.workspace.change_settings(replace(current.conversation.settings, is_thinking=True))
        current.undo_stack.undo()
        assert current.conversation.settings == ConversationSettings(is_thinking=True)


async def test_undo_of_a_reset_brings_back_what_was_reset(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.pane.open(window.chat.settings)
        card, current = window.chat.settings, window.workspace.current
        card.sampling["temperature"].setValue(0.4)
        card.resets["temperature"].click()
        current.undo_stack.undo()
        assert current.conversation.settings.temperature == 0.4
        card.system_prompt.setPlainText("Be brief.")
        card.reset.click()
        assert current.undo_stack.undoText() == "Reset Settings"
        current.undo_stack.undo()
        assert card.system_prompt.text == "Be brief."
        assert current.undo_stack.undoText() == "Change System Prompt"


async def test_undo_key_reaches_the_last_change_from_a_field_without_typing(
    engine: Engine, theme: Theme
) -> None:
    undo, redo = QKeySequence("Ctrl+Z"), QKeySequence(QKeySequence.StandardKey.Redo)
    async with shown(main_window(engine, theme)) as window:
        await eventually(window.isActiveWindow)
        current, field = window.workspace.current, window.stop_panel.editor.input
        window.pane.toggle(window.stop_panel)
        QTest.keyClicks(field, "END")
        QTest.keyClick(field, Qt.Key.Key_Return)
        QTest.keySequence(field, undo)
        assert (current.stops.entries(), field.text()) == ([], "")
        QTest.keySequence(field, redo)
        assert len(current.stops.entries()) == 1
        window.pane.toggle(window.chat.settings)
        number = window.chat.settings.sampling["temperature"]
        number.setFocus()
        QTest.keyClick(number, Qt.Key.Key_Up)
        assert current.conversation.settings.temperature == 0.0
        QTest.keySequence(number, undo)
        assert current.conversation.settings.temperature is None
        prompt = window.chat.settings.system_prompt
        prompt.setFocus()
        QTest.keyClicks(prompt, "Be brief.")
        window.chat.settings.reset.click()
        QTest.keySequence(prompt, undo)
        assert prompt.text == "Be brief."
        QTest.keyRelease(prompt, Qt.Key.Key_Control)  # other tests would see it held


async def test_settings_stay_with_their_conversation(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.pane.open(window.chat.settings)
        card, workspace = window.chat.settings, window.workspace
        card.system_prompt.setFocus()
        QTest.keyClicks(card.system_prompt, "Be brief.")
        first = workspace.current.conversation
        workspace.send("Count from 1 to 3")
        window.chat.new_conversation()
        assert card.system_prompt.toPlainText() == ""
        assert first.settings.system_prompt == "Be brief."


def test_number_of_tokens_has_grouped_digits(page: SettingsPage) -> None:
    edited = edits_of(page)
    page.show_settings(SettingsBasis(), ConversationSettings(max_tokens=1000, seed=1000))
    assert page.max_tokens.text() == "1,000"
    assert page.sampling["seed"].text() == "1000"
    page.max_tokens.selectAll()
    QTest.keyClicks(page.max_tokens, "2,500")
    QTest.keyClick(page.max_tokens, Qt.Key.Key_Return)
    assert edited[-1].max_tokens == 2500


async def test_search_of_settings_marks_words_of_the_server(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.others.show_preferences()
        dialog = window.findChild(PreferencesDialog)
        assert dialog is not None
        dialog.search.setText("network")
        assert dialog.buttons.checkedButton().text() == "Server"
        names = [one.text() for one in dialog.server.findChildren(QLabel) if one.isVisible()]
        [marked] = [text for text in names if "background" in text]
        assert "network" in marked
        dialog.close()
