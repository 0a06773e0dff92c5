"""Menus and their entries. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

Keys = QKeySequence.StandardKey | str


def add_entry(
    menu: QMenu,
    words: str,
    intent: Callable[[], object],
    *keys: Keys,
    works_everywhere: bool = False,
    is_checked: bool | None = None,
) -> QAction:
    """Add an entry to a menu.

    Args:
        menu: The menu.
        words: What the entry says; ``&`` comes before the letter that chooses it.
        intent: What it does.
        keys: The shortcuts that do the same.
        works_everywhere: Whether the shortcuts work in all windows of the program.
        is_checked: Whether it has a mark; None for an entry that can have none.
    """
    action = menu.addAction(words)
    if keys:
        action.setShortcuts([QKeySequence(key) for key in keys])
    if works_everywhere:
        action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    if is_checked is not None:
        action.setCheckable(True)
        action.setChecked(is_checked)
    # Qt passes whether the entry is checked, which an intent does not take.
    action.triggered.connect(lambda: intent())
    return action


def passing_menu(parent: QWidget, name: str = "") -> QMenu:
    """Return an empty menu that is deleted when it is closed, with a name for screen readers."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.setAccessibleName(name)
    return menu


def empty_menu(menu: QMenu) -> None:
    """Remove all entries and the menus inside, which Qt would keep."""
    menu.clear()
    for inner in menu.findChildren(QMenu):
        inner.deleteLater()


def literal(words: str) -> str:
    """Return words of a person as an entry's text, in which ``&`` is an ampersand."""
    return words.replace("&", "&&")
