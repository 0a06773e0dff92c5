"""Boxes that show a message, report a failure, or ask a question.

All of them show plain text, never block (``exec`` inside a task hangs if Qt and asyncio share one
loop), and are deleted when they are closed. Main thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QInputDialog, QLabel, QMessageBox, QWidget

_PROGRAM = "Fullstop"
_INPUT_CHARACTERS = 50


@dataclass(frozen=True, slots=True)
class BoxButton:
    """A button that answers a question.

    Attributes:
        words: Its label.
        act: Called when a person chooses it.
        is_destructive: Whether it deletes something.
    """

    words: str
    act: Callable[[], object]
    is_destructive: bool = False


def tell(parent: QWidget, text: str, detail: str = "", *, title: str = _PROGRAM) -> QMessageBox:
    """Show a message that needs no answer.

    Args:
        parent: The widget that the box belongs to.
        text: The message.
        detail: More about it; empty for nothing.
        title: The box's title.
    """
    return _open(_box(parent, text, detail, title))


def report_failure(
    parent: QWidget, text: str, detail: str = "", *, title: str = _PROGRAM
) -> QMessageBox:
    """Say that something went wrong, and why.

    Args:
        parent: The widget that the box belongs to.
        text: What went wrong.
        detail: Why.
        title: The box's title.
    """
    box = _box(parent, text, detail, title)
    box.setIcon(QMessageBox.Icon.Warning)
    return _open(box)


def ask(
    parent: QWidget,
    text: str,
    detail: str = "",
    *,
    answers: Sequence[BoxButton],
    title: str = _PROGRAM,
    is_warning: bool = False,
    prefers_cancel: bool = False,
) -> QMessageBox:
    """Ask a question; Cancel and the Escape key do nothing.

    Args:
        parent: The widget that the box belongs to.
        text: The question.
        detail: What a person needs to know to answer it.
        answers: The answers beside Cancel; the first is the default.
        title: The box's title.
        is_warning: Whether something may be lost.
        prefers_cancel: Whether Cancel is the default.
    """
    box = _box(parent, text, detail, title)
    if is_warning:
        box.setIcon(QMessageBox.Icon.Warning)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setEscapeButton(cancel)
    box.setDefaultButton(cancel)
    roles = QMessageBox.ButtonRole
    for place, answer in enumerate(answers):
        role = roles.DestructiveRole if answer.is_destructive else roles.AcceptRole
        button = box.addButton(answer.words, role)
        button.clicked.connect(lambda _=False, act=answer.act: act())
        if place == 0 and not prefers_cancel:
            box.setDefaultButton(button)
    return _open(box)


def ask_text(
    parent: QWidget, title: str, question: str, then: Callable[[str], object]
) -> QInputDialog:
    """Ask for one line of text; ``then`` gets it without the white space around it.

    Nothing happens if a person types nothing.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        question: The question.
        then: Called with the text.
    """
    dialog = _input(parent, title, question)

    def take(typed: str) -> None:
        if typed.strip():
            then(typed.strip())

    dialog.textValueSelected.connect(take)
    dialog.open()
    return dialog


def ask_number(
    parent: QWidget,
    title: str,
    question: str,
    then: Callable[[int], object],
    *,
    least: int,
    most: int,
) -> QInputDialog:
    """Ask for a whole number.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        question: The question.
        then: Called with the number.
        least: The smallest number that can be given.
        most: The largest number that can be given.
    """
    dialog = _input(parent, title, question)
    dialog.setInputMode(QInputDialog.InputMode.IntInput)
    dialog.setIntRange(least, most)
    dialog.intValueSelected.connect(then)
    dialog.open()
    return dialog


def _input(parent: QWidget, title: str, question: str) -> QInputDialog:
    dialog = QInputDialog(parent)
    dialog.setWindowTitle(title)
    dialog.setLabelText(question)
    # Wide enough for its title and for some words; Qt's own is as wide as the two buttons.
    # The dialog's layout sets the dialog's own least width anew, so its label has it.
    (words,) = dialog.findChildren(QLabel)
    words.setMinimumWidth(dialog.fontMetrics().averageCharWidth() * _INPUT_CHARACTERS)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def _box(parent: QWidget, text: str, detail: str, title: str) -> QMessageBox:
    box = QMessageBox(parent)
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(text)
    box.setInformativeText(detail)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def _open(box: QMessageBox) -> QMessageBox:
    box.open()
    return box
