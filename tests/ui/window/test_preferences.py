from typing import TypeVar

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton, QScrollArea, QWidget

from tests.support.kept import preferences_state
from tests.support.looks.contrast import contrast
from tests.ui.driving import press
from ui.kit.buttons import Choice, ToggleSwitch
from ui.kit.colors import DARK, LIGHT, strengthened
from ui.kit.fields import NumberField
from ui.kit.theme import Theme
from ui.preferences import Preferences, ServerPreferences, ToolPreferences
from ui.server.server_settings import origin_problem
from ui.window.preferences_dialog import PreferencesDialog

Control = TypeVar("Control", bound=QWidget)


def control(dialog: PreferencesDialog, path: str, kind: type[Control]) -> Control:
    found = dialog.controls[path]
    assert isinstance(found, kind)
    return found


async def test_each_control_changes_its_preference_at_once(theme: Theme, parent: QWidget) -> None:
    state = preferences_state(Preferences(theme="light"))
    dialog = PreferencesDialog(state, parent)
    control(dialog, "theme", Choice).choose("dark")
    control(dialog, "has_high_contrast", ToggleSwitch).setChecked(True)
    control(dialog, "server.at_launch", Choice).choose("off")
    control(dialog, "stays_in_tray", ToggleSwitch).setChecked(False)
    control(dialog, "new_conversation.temperature", NumberField).setValue(0.4)
    control(dialog, "new_conversation.max_tokens", NumberField).setValue(128)
    control(dialog, "new_conversation.is_thinking", ToggleSwitch).setChecked(True)
    control(dialog, "new_conversation.thinking_budget", NumberField).setValue(64)
    dialog.show()
    prompt = control(dialog, "new_conversation.system_prompt", QPlainTextEdit)
    prompt.setPlainText("Be brief.")
    dialog.close()
    now = state.now
    assert (now.theme, now.has_high_contrast, now.stays_in_tray) == ("dark", True, False)
    assert now.server.at_launch == "off"
    begin = now.new_conversation
    assert (begin.temperature, begin.max_tokens, begin.is_thinking) == (0.4, 128, True)
    assert begin.settings().thinking_budget == 64
    assert begin.system_prompt == "Be brief."


@pytest.mark.parametrize(
    ("at_launch", "was_on", "starts_on"),
    [("as_left", True, True), ("as_left", False, False), ("on", False, True), ("off", True, False)],
)
def test_the_server_starts_in_its_last_state_unless_a_preference_says_otherwise(
    at_launch: str, was_on: bool, starts_on: bool
) -> None:
    server = ServerPreferences(at_launch=at_launch, was_on=was_on)  # type: ignore[arg-type]
    assert server.starts_on is starts_on


@pytest.mark.parametrize(
    "text",
    ["*", "https://example.org", "http://localhost:5173", "app://*", "tauri://localhost"],
)
def test_an_origin_is_scheme_and_host(text: str) -> None:
    assert origin_problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "example.org",
        "https://",
        "https://example.org/path",
        "https://*.example.org",
    ],
)
def test_an_invalid_origin_is_refused_with_an_example(text: str) -> None:
    assert "https://example.org" in str(origin_problem(text))


@pytest.mark.parametrize("usual", [LIGHT, DARK], ids=["light", "dark"])
def test_with_high_contrast_lesser_texts_and_lines_stand_out(usual: object) -> None:
    colors = strengthened(usual)  # type: ignore[arg-type]
    for text in (colors.text, colors.muted, colors.faint):
        for ground in (colors.canvas, colors.raised, colors.sidebar, colors.sunken):
            assert contrast(text, ground) >= 7
    assert contrast(colors.line, colors.canvas) >= 3
    assert contrast(colors.strong_line, colors.canvas) >= 4.5


async def test_approved_tools_are_listed_and_can_be_removed(
    theme: Theme,
    parent: QWidget,
) -> None:
    allowed = (("sums", "add", "f1"), ("files", "read", "f2"))
    state = preferences_state(Preferences(tools=ToolPreferences(allowed=allowed)))

    dialog = PreferencesDialog(state, parent)
    dialog.show()
    dialog.show_pane("Tools")
    rows = dialog.controls["tools.allowed"]
    press(rows, "Remove sums · add")
    await state.finish()
    assert state.now.tools.allowed == (("files", "read", "f2"),)


def test_search_shows_only_settings_that_contain_its_words(theme: Theme, parent: QWidget) -> None:
    dialog = PreferencesDialog(preferences_state(), parent)
    dialog.show()
    dialog.search.setText("lines code")
    assert dialog.buttons.checkedButton().text() == "Appearance"
    found = [one.text() for one in dialog.buttons.buttons() if one.property("is_found")]
    assert found == ["Appearance"]
    assert dialog.controls["code_wraps"].isVisible()
    assert not dialog.controls["theme"].isVisible()
    dialog.search.setText("no such thing")
    assert dialog.empty.isVisible()
    assert dialog.empty.findChild(QLabel).text() == "No Results for “no such thing”"
    dialog.empty.findChild(QPushButton).click()
    assert not dialog.search.text()
    assert not dialog.empty.isVisible()
    assert dialog.controls["theme"].isVisible()
    dialog.search.setText("no such thing")
    QTest.keyClick(dialog.search, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    assert not dialog.search.text()
    dialog.search.setText("wrap")
    QTest.keyClick(dialog.search, Qt.Key.Key_Return)
    assert not dialog.search.text()
    assert dialog.buttons.checkedButton().text() == "Appearance"
    assert dialog.focusWidget() is dialog.controls["code_wraps"]
    dialog.search.setText("lines code")
    storage = next(one for one in dialog.buttons.buttons() if one.text() == "Storage")
    storage.click()
    assert not dialog.search.text(), "a pane without results ends the search"
    low = dialog.height()
    dialog.search.setText("sort conversations")
    assert dialog.buttons.checkedButton().text() == "General"
    dialog.search.clear()
    assert dialog.height() > low, "as high as the pane needs"
    dialog.search.setText("lines code")
    dialog.show_pane("Server")  # as the server's window does
    assert dialog.controls["server.port"].isVisible()
    dialog.close()


def test_settings_that_cannot_be_saved_once_the_dialog_is_closed_do_not_reach_it(
    theme: Theme, parent: QWidget
) -> None:
    state = preferences_state()
    dialog = PreferencesDialog(state, parent)
    dialog.show()
    dialog.close()
    QCoreApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete.value)
    state.keeping_failed.emit("The disk is full.")


async def test_controls_follow_what_is_changed_elsewhere(theme: Theme, parent: QWidget) -> None:
    state = preferences_state()
    dialog = PreferencesDialog(state, parent)
    state.change(list_order="title", has_high_contrast=True)
    assert control(dialog, "list_order", Choice).currentData() == "title"
    assert control(dialog, "has_high_contrast", ToggleSwitch).isChecked()
    port = control(dialog, "server.port", NumberField)
    port.setValue(0)
    assert state.now.server.port == 1
    dialog.close()


def test_disabled_setting_has_its_reason_below_its_name(theme: Theme, parent: QWidget) -> None:
    dialog = PreferencesDialog(preferences_state(), parent)
    dialog.show()
    dialog.disable("checks_for_updates", "This copy runs from a folder.")
    assert not dialog.controls["checks_for_updates"].isEnabled()
    texts = [one.text() for one in dialog.findChildren(QLabel) if one.isVisible()]
    assert "This copy runs from a folder." in texts
    dialog.close()


def test_settings_window_is_as_high_as_its_pane(theme: Theme, parent: QWidget) -> None:
    dialog = PreferencesDialog(preferences_state(), parent)
    dialog.show()
    heights = {}
    for pane in ("General", "Tools"):
        dialog.show_pane(pane)
        heights[pane] = dialog.height()
        area = dialog.panes.currentWidget()
        assert isinstance(area, QScrollArea)
        assert area.verticalScrollBar().maximum() == 0, "nothing scrolls"
    assert heights["Tools"] < heights["General"]
    dialog.search.setText("port")
    assert dialog.height() == heights["Tools"], "it does not jump while a search is typed"
    dialog.close()
