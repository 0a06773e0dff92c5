"""Labels of menus, and the clipboard. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QAbstractButton, QToolButton

from ui.kit.icon_engine import themed_icon


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
    """Put a text on the clipboard; the pressed button shows that."""
    copy_text(text)
    show_copied(button)


def show_copied(button: QAbstractButton) -> None:
    """Show "Copied" on a pressed button for a moment; on a small one, a check mark."""
    caption, icon = button.text(), button.icon()
    if caption == _COPIED:  # it was pressed twice, and the first press restores its words
        return

    def show(text: str, icon: QIcon) -> None:
        button.setText(text)
        if isinstance(button, QToolButton):  # shows its icon alone, in the width of its words
            button.setIcon(icon)

    button.setMinimumWidth(button.width())  # its neighbors keep their places
    show(_COPIED, themed_icon("tick"))
    QTimer.singleShot(COPIED_MS, button, lambda: show(caption, icon))
