"""A window with a conversation that is long enough to scroll, answered by a script."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.shown import Use, main_window, shown
from tests.ui.chat.reading.conversations import END
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually, push
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def use(run: RunOnLoop, scripted: ScriptedEngine, theme: Theme) -> Use:
    """Show a window, use it, and quit."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            window = main_window(scripted, theme)  # type: ignore[arg-type]
            async with shown(window, quits=True):
                window.activateWindow()
                await eventually(window.isActiveWindow)
                try:
                    await steps(window)
                finally:
                    for generation in scripted.generations:
                        push(generation, [END])

        run(whole())

    return use_window
