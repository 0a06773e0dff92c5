"""The window on a real store and the real engine, over several starts of the program."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.store.conversation_store import open_store
from engine.scheduling.service import Engine
from tests.support.shown import Use, main_window, shown
from tests.ui.driving import RunOnLoop
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path) -> Use:
    """Show a window on the same file each time it is called."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            store = await open_store(tmp_path / "conversations.db")
            try:
                async with shown(main_window(engine, theme, store=store)) as window:
                    await steps(window)
            finally:
                await store.close()

        run(whole())

    return use_window
