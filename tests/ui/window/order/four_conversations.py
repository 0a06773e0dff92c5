"""A window with four conversations, and what tests ask of its list."""

from ui.records.conversations import Conversation
from ui.window.main_window import MainWindow

NAMES = ("Apples", "Bananas", "Cherries", "Dates")


def listed(window: MainWindow) -> list[str]:
    rows = window.sidebar.rows
    return [
        row.title if isinstance(row, Conversation) else f"[{row.name}]"
        for row in map(rows.at, range(rows.rowCount()))
    ]


def one(window: MainWindow, title: str) -> Conversation:
    return next(c for c in window.workspace.conversations.every() if c.title == title)
