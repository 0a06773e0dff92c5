"""What tests of kept conversations do with the window and find in it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from PySide6.QtWidgets import QAbstractButton, QMessageBox

from tests.ui.driving import ended
from ui.chat.messages.answer_view import AnswerView
from ui.window.main_window import MainWindow

Start = Callable[[], AbstractAsyncContextManager[MainWindow]]
COUNT = "Count from 1 to 10, one number per line"


async def ask(window: MainWindow, question: str) -> None:
    assert window.workspace.send(question)
    await ended(window)


def limit(window: MainWindow, max_tokens: int | None) -> None:
    settings = window.workspace.current.conversation.settings
    window.workspace.change_settings(replace(settings, max_tokens=max_tokens))


def views(window: MainWindow) -> list[AnswerView]:
    return [view for view in window.findChildren(AnswerView) if view.isVisibleTo(window)]


def button(box: QMessageBox, words: str) -> QAbstractButton:
    return next(one for one in box.buttons() if one.text() == words)
