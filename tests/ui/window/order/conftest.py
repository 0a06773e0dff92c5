"""A window with four conversations."""

import pytest

from engine.engine import Engine
from tests.support.answers.said import conversation
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, opened
from tests.ui.window.order.four_conversations import NAMES
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    store = MemoryConversationStore()
    for number, name in enumerate(NAMES):
        one = conversation(f"What are {name}?")
        one.title, one.updated_at, one.created_at = name, 1e9 - number, 1e9 + number
        store.save(one)
    return enter(lambda: opened(main_window(engine, theme, store=store)))
