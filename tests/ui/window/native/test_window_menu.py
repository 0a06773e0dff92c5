"""The Window menu, and notifications of answers that end in the background."""

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, TextDelta, Timing, Usage
from tests.support.kept import preferences_state
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, ScriptedEngine, begun, eventually, opened
from ui.kit.theme import Theme
from ui.preferences import Preferences
from ui.preferences_state import PreferencesState
from ui.records.conversations import Conversation
from ui.window.main_window import MainWindow
from ui.window.other_windows import plain

END = Finished(StopInfo(StopKind.STOP_STRING, "</s>"), Usage(7, 0, 12), Timing())


@pytest.fixture
def preferences(theme: Theme) -> PreferencesState:
    return preferences_state(Preferences(theme=theme.mode))


@pytest.fixture
def window(
    enter: Enter, scripted: ScriptedEngine, theme: Theme, preferences: PreferencesState
) -> Living[MainWindow]:
    return enter(
        lambda: opened(
            main_window(scripted, theme, preferences=preferences),
            quits=True,
            is_in_front=True,
            scripted=scripted,
        )
    )


def entries(window: MainWindow) -> dict[str, QAction]:
    """Return the entries of the Window menu as it is about to be shown, by their words."""
    found = next(a.menu() for a in window.menuBar().actions() if plain(a.text()) == "Window")
    assert isinstance(found, QMenu)
    found.aboutToShow.emit()
    return {plain(action.text()): action for action in found.actions() if action.text()}


async def test_the_window_menu_lists_the_windows_and_brings_one_forward(window: MainWindow) -> None:
    assert list(entries(window))[-1:] == ["Fullstop"]
    window.others.show_inspector()
    inspector = window.others.inspector
    await eventually(inspector.isActiveWindow)
    listed = entries(window)
    assert list(listed)[-1:] == ["Fullstop"], "the inspector has its own entry"
    assert listed[inspector.windowTitle()].isChecked()
    listed["Minimize"].trigger()
    assert inspector.isMinimized()
    assert not window.isMinimized()
    entries(window)[inspector.windowTitle()].trigger()
    assert not inspector.isMinimized()
    window.activateWindow()
    await eventually(window.isActiveWindow)
    entries(window)["Bring All to Front"].trigger()
    assert window.isActiveWindow()


async def answered_in_background(
    window: MainWindow, scripted: ScriptedEngine, *, seconds: float
) -> None:
    """Let an answer end while no window has the keyboard, as if it had taken so long."""
    run = await begun(window, scripted)
    run.started_at -= seconds
    scripted.say(TextDelta("secret words"), END)
    await eventually(lambda: run.is_over)


async def test_a_long_answer_in_the_background_is_told_and_a_click_shows_it(
    window: MainWindow, scripted: ScriptedEngine, preferences: PreferencesState
) -> None:
    told: list[tuple[str, str, Conversation]] = []
    window.notices.notified.connect(lambda *notice: told.append(notice))
    await answered_in_background(window, scripted, seconds=3600)
    assert told == [], "whoever sees the window needs no notification"
    answered = window.workspace.current.conversation
    window.hide()
    await eventually(lambda: not window.isActiveWindow())
    await answered_in_background(window, scripted, seconds=0)
    assert told == [], "an answer that took a moment is no news"
    await answered_in_background(window, scripted, seconds=3600)
    ((title, text, chosen),) = told
    assert title == answered.title
    assert text == "Stopped by “‹/s›” · 12 tokens"
    window.workspace.new_conversation()
    window.notices.show(chosen)
    assert window.isVisible()
    assert window.workspace.current.conversation is answered
    window.hide()
    await eventually(lambda: not window.isActiveWindow())
    preferences.change(tells_of_answers=False)
    await answered_in_background(window, scripted, seconds=3600)
    assert len(told) == 1, "who does not want it is not told"
