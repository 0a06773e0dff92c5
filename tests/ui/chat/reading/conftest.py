"""A window with a conversation that is long enough to scroll, answered by a script."""

import pytest

from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, ScriptedEngine, opened
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, scripted: ScriptedEngine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        return main_window(scripted, theme)  # type: ignore[arg-type]

    return enter(lambda: opened(make(), quits=True, is_in_front=True, scripted=scripted))
