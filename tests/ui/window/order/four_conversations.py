"""A window with four conversations, and what tests ask of its list."""

from collections.abc import Callable, Coroutine
from typing import Any

from engine.scheduling.service import Engine
from tests.support.answers.said import conversation
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop
from ui.chat.columns.sidebar_rows import FolderHead
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.store import MemoryConversationStore
from ui.window.main_window import MainWindow

NAMES = ("Apples", "Bananas", "Cherries", "Dates")


def used(run: RunOnLoop, engine: Engine, theme: Theme, steps: Callable[..., Any]) -> None:
    async def whole() -> None:
        store = MemoryConversationStore()
        for number, name in enumerate(NAMES):
            one = conversation(f"What are {name}?")
            one.title, one.updated_at, one.created_at = name, 1e9 - number, 1e9 + number
            store.save(one)
        async with shown(main_window(engine, theme, store=store)) as window:
            steps_done: Coroutine[Any, Any, None] = steps(window)
            await steps_done

    run(whole())


def listed(window: MainWindow) -> list[str]:
    rows = window.sidebar.rows
    return [
        f"[{row.folder.name}]" if isinstance(row, FolderHead) else row.title
        for row in map(rows.at, range(rows.rowCount()))
    ]


def one(window: MainWindow, title: str) -> Conversation:
    return next(c for c in window.workspace.conversations.every() if c.title == title)
