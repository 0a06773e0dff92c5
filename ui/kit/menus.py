"""Menus and their entries, and the clipboard. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

Keys = QKeySequence.StandardKey | str


def add_entry(
    menu: QMenu,
    text: str,
    intent: Callable[[], object],
    *keys: Keys,
    works_everywhere: bool = False,
    is_checked: bool | None = None,
) -> QAction:
    """Add an entry to a menu."""
    action = menu.addAction(text)
    if keys:
        action.setShortcuts([QKeySequence(key) for key in keys])
    if works_everywhere:
        action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    if is_checked is not None:
        action.setCheckable(True)
        action.setChecked(is_checked)
    # Qt passes whether the entry is checked; an intent takes no arguments.
    action.triggered.connect(lambda: intent())
    return action


def context_menu(parent: QWidget, name: str = "") -> QMenu:
    """Return an empty menu with an accessible name, which is deleted when it is closed."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.setAccessibleName(name)
    return menu


def empty_menu(menu: QMenu) -> None:
    """Remove all entries, and the submenus, which Qt would keep."""
    menu.clear()
    for inner in menu.findChildren(QMenu):
        inner.deleteLater()


def escape_mnemonics(text: str) -> str:
    """Return the user's words as a label in which ``&`` is an ampersand."""
    return text.replace("&", "&&")


COPIED_MS = 1_500  # how long a button says "Copied"
_COPIED = "Copied"


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)


def copied_text() -> str:
    """Return the text on the clipboard; empty if the clipboard contains something else."""
    return QGuiApplication.clipboard().text()


def copy_from(button: QAbstractButton, text: str) -> None:
    """Put a text on the clipboard, and show "Copied" on the pressed button for a moment."""
    copy_text(text)
    caption = button.text()
    if caption != _COPIED:  # otherwise it was pressed twice, and the first press restores its words
        button.setText(_COPIED)
        QTimer.singleShot(COPIED_MS, button, lambda: button.setText(caption))
