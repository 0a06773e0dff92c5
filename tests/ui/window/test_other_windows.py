"""The keys of the menus in the program's other windows: each can be left and reached by them."""

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.theme import Theme
from ui.preferences import Preferences
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme)))


def press(window: QWidget, keys: str) -> None:
    QTest.keySequence(window, QKeySequence(keys))


async def in_front(window: QWidget) -> None:
    window.activateWindow()
    await eventually(lambda: QApplication.activeWindow() is window)


async def test_every_other_window_is_closed_by_the_keys_that_close_a_window(
    window: MainWindow,
) -> None:
    for show in (
        window.others.show_inspector,
        window.others.show_capture,
        window.others.show_probe,
    ):
        show()
        (other,) = (one for one in others(window) if one.isVisible())
        await in_front(other)
        press(other, "Ctrl+W")
        await eventually(other.isHidden)
        assert window.isVisible()
    await in_front(window)
    press(window, "Ctrl+W")
    await eventually(window.isHidden)


def others(window: MainWindow) -> list[QWidget]:
    found = (window.others.inspector, window.others.capture, window.others.probe)
    return [one for one in found if one is not None]


async def test_columns_that_a_person_chose_are_kept_with_the_preferences(
    engine: Engine, theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "columns", ())
    state = preferences_state(Preferences(columns=(("Runs", "When"),)))
    async with shown(main_window(engine, theme, preferences=state)):
        assert theme.columns == (("Runs", "When"),)
        theme.choose_columns("Requests", ["Time", "Total"])
        kept = (("Runs", "When"), ("Requests", "Time"), ("Requests", "Total"))
        assert state.now.columns == kept
