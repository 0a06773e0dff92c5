"""A window with four conversations, and what tests ask of its list."""

from dataclasses import replace

from ui.records.conversations import Conversation, ConversationFolder
from ui.window.main_window import MainWindow

NAMES = ("Apples", "Bananas", "Cherries", "Dates")


def listed(window: MainWindow) -> list[str]:
    rows = window.sidebar.rows
    return [
        row.title if isinstance(row, Conversation) else f"[{row.name}]"
        for row in map(rows.at, range(rows.rowCount()))
        if not isinstance(row, str)
    ]


def open_folder(window: MainWindow, name: str) -> None:
    folders = window.workspace.conversations.folders
    known = {folder.name: folder for folder in folders.all()}
    folders.keep(replace(known.get(name, ConversationFolder(name)), is_open=True))


def one(window: MainWindow, title: str) -> Conversation:
    return next(c for c in window.workspace.conversations.every() if c.title == title)
