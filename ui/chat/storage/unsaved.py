"""Asks before a window closes while conversations are not saved. Main thread."""

from collections.abc import Callable

from PySide6.QtWidgets import QMessageBox, QWidget

from ui.kit.system.boxes import BoxButton, ask

_NAME = "unsaved_box"
_DETAIL = (
    "The file of your conversations cannot be written. If you quit now, the unsaved text is lost. "
    "Free some disk space and wait a moment, or export your conversations to another place."
)


def ask_about_unsaved(
    parent: QWidget, export: Callable[[], object], leave: Callable[[], object]
) -> QMessageBox:
    """Ask whether to export, to quit all the same, or to stay; one box at a time.

    Args:
        parent: The window that is to close.
        export: Writes the conversations to a file.
        leave: Closes the window although they are lost.
    """
    asked = parent.findChild(QMessageBox, _NAME)
    if asked is not None:
        return asked
    answers = [
        BoxButton("Export…", export),
        BoxButton("Quit Without Saving", leave, is_destructive=True),
    ]
    text = "Some of what you wrote is not saved."
    box = ask(parent, text, _DETAIL, answers=answers, is_warning=True)
    box.setObjectName(_NAME)
    return box
