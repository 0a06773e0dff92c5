"""The window on a real store and the real engine, over several starts of the program."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.store.conversation_store import open_store
from engine.engine import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living
from tests.ui.window.kept.driving_kept import Start
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
        await store.aclose()


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme, tmp_path: Path) -> Living[MainWindow]:
    return enter(lambda: started(engine, theme, tmp_path))


@pytest.fixture
def start(engine: Engine, theme: Theme, tmp_path: Path) -> Start:
    """Start the program on the same conversations each time it is called."""
    return lambda: started(engine, theme, tmp_path)
