"""The window on a real store and the real engine, over several starts of the program."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.store.conversation_store import open_store
from engine.scheduling.service import Engine
from tests.support.shown import Use, main_window, shown
from tests.ui.driving import Enter, Living, RunOnLoop
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@asynccontextmanager
async def started(engine: Engine, theme: Theme, folder: Path) -> AsyncIterator[MainWindow]:
    """One start of the program on the conversations of a folder."""
    store = await open_store(folder / "conversations.db")
    try:
        async with shown(main_window(engine, theme, store=store)) as window:
            yield window
    finally:
        await store.close()


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme, tmp_path: Path) -> Living[MainWindow]:
    return enter(lambda: started(engine, theme, tmp_path))


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path) -> Use:
    """Show a window on the same file each time it is called."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with started(engine, theme, tmp_path) as window:
                await steps(window)

        run(whole())

    return use_window
